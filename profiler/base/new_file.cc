#include "profiler/base/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "profiler/base/index.h"

namespace fs = std::filesystem;

namespace mptune {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;
constexpr int kMostNames = 100;

bool sync_and_close(int descriptor) {
  // Some file systems can't sync; what they hold is as safe as they make it.
  const int failed = ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  const bool closed = ::close(descriptor) == 0;
  if (failed != 0) errno = failed;
  return failed == 0 && closed;
}

// A folder that can't be synced loses at most the new name in a power cut; the content is safe by now.
void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) (void)sync_and_close(descriptor);
}

// Replaces a regular file or puts the file where nothing is: anything else that was put there meanwhile stays.
bool put_in_place(const std::string& from, const std::string& target) {
  struct stat there {};
  if (::lstat(target.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    errno = S_ISDIR(there.st_mode) ? EISDIR : EBUSY;
    return false;
  }
  if (std::rename(from.c_str(), target.c_str()) != 0) return false;
  sync_folder_of(target);
  return true;
}

// Links of /proc lead to what a process has open, not to a path.
bool is_of_proc(const fs::path& path) {
  std::error_code failed;
  const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", failed);
  return !failed && folder.string().starts_with("/proc/");
}

constexpr const char* kTemporary = ".tmp-";

std::string temporary_prefix(const std::string& target, pid_t process) {
  return target + kTemporary + std::to_string(process) + "-";
}

// Returns the path beside which a temporary file is written if the user's path is written to directly and a library can't do that.
std::string beside_in_temporary_folder() {
  const char* variable = std::getenv("TMPDIR");
  const std::string folder = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  return folder + "/mptune";
}

// Calls visit with each path on the way. Throws Error where links go in a circle.
template <class Visit>
void follow_links(fs::path& path, const Visit& visit) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  const std::string named = path.string();
  std::error_code failed;
  for (int links = 0; fs::is_symlink(path, failed); ++links) {
    if (links == kMostLinks) throw write_error(named, ELOOP);
    path = path.parent_path() / fs::read_symlink(path, failed);
    if (failed) throw write_error(named, failed.value());
    visit(path);
  }
}

template <class Visit>
void read_pieces(const std::string& path, const Visit& visit) {
  std::ifstream content(path, std::ios::binary);
  std::string piece(kBuffer, '\0');
  while (content.read(piece.data(), static_cast<std::streamsize>(piece.size())) || content.gcount() > 0)
    visit(std::string_view(piece).substr(0, as_index(content.gcount())));
}

void keep_permissions(const std::string& of, int descriptor) {
  struct stat there {};
  if (::stat(of.c_str(), &there) == 0) (void)::fchmod(descriptor, there.st_mode & 0777);
}

}  // namespace

NewFile::NewFile(std::string path, ExitCode wrong_path) : path_(std::move(path)), wrong_path_(wrong_path) {
  if (is_written_directly(path_)) {
    do descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) fail();
    return;
  }
  target_ = behind_links(path_);
  const fs::path target = target_;
  remove_leftovers(target.parent_path().string(), target.filename().string() + kTemporary);
  descriptor_ = create_temporary(target_, path_);
  keep_permissions(target_, descriptor_);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

// Makes the temporary file beside `target`. `named` is the path that errors name.
int NewFile::create_temporary(const std::string& target, const std::string& named) {
  static std::atomic<int> count{0};
  for (int attempt = 0;; ++attempt) {
    std::string name = temporary_prefix(target, ::getpid()) + std::to_string(count++);
    const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && (errno != EEXIST || attempt == kMostNames)) throw write_error(named, errno, wrong_path_);
    if (descriptor < 0) continue;
    lock_unfinished(descriptor);
    temporary_ = std::move(name);
    unfinished_.emplace(temporary_);
    return descriptor;
  }
}

const std::string& NewFile::temporary() {
  if (!temporary_.empty()) return temporary_;
  // A library can't write to a device: the content is copied there afterwards.
  const std::string beside = beside_in_temporary_folder();
  ::close(create_temporary(beside, fs::path(beside).parent_path().string()));
  return temporary_;
}

void NewFile::copy_temporary() {
  read_pieces(temporary_, [this](std::string_view piece) { write(piece); });
  ::unlink(temporary_.c_str());
  temporary_.clear();
  unfinished_.reset();
}

NewFile& NewFile::operator<<(std::string_view bytes) {
  if (buffer_.size() + bytes.size() < kBuffer) {
    buffer_ += bytes;
    return *this;
  }
  write(buffer_);
  buffer_.clear();
  if (bytes.size() < kBuffer)
    buffer_ = bytes;
  else
    write(bytes);
  return *this;
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) fail();
    if (count > 0) bytes.remove_prefix(as_index(count));
  }
}

void NewFile::commit() {
  write(buffer_);
  if (target_.empty() && !temporary_.empty()) copy_temporary();
  const bool safe = sync_and_close(descriptor_);
  descriptor_ = -1;
  if (!safe || (!target_.empty() && !put_in_place(temporary_, target_))) fail();
  temporary_.clear();
  unfinished_.reset();
}

void NewFile::fail() const {
  throw write_error(path_, errno, wrong_path_);
}

std::string behind_links(const std::string& path) {
  fs::path target = path;
  follow_links(target, [](const fs::path&) {});
  return target.string();
}

bool is_written_directly(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0 || S_ISDIR(there.st_mode)) return false;
  if (!S_ISREG(there.st_mode) || is_of_proc(path)) return true;
  bool proc = false;
  fs::path target = path;
  follow_links(target, [&](const fs::path& link) { proc = proc || is_of_proc(link); });
  return proc;
}

void require_other_than(const std::string& path, const std::vector<std::string>& inputs) {
  struct stat output {};
  if (::stat(path.c_str(), &output) != 0 || !S_ISREG(output.st_mode)) return;
  for (const std::string& input : inputs) {
    struct stat read {};
    if (::stat(input.c_str(), &read) == 0 && read.st_dev == output.st_dev && read.st_ino == output.st_ino)
      throw Error("the output would replace an input of this command", path, "name another file");
  }
}

void remove_uncommitted(const std::string& path, pid_t process) {
  try {
    const fs::path prefix = temporary_prefix(is_written_directly(path) ? beside_in_temporary_folder() : behind_links(path), process);
    const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
    std::vector<fs::path> left;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(prefix.filename().string())) left.push_back(entry.path());
    for (const fs::path& file : left) fs::remove(file);
  } catch (const std::exception&) {  // e.g. the folder is gone
  }
}

void move_file(const std::string& from, const std::string& path, ExitCode wrong_path) {
  const int descriptor = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || !sync_and_close(descriptor)) throw write_error(path, errno, wrong_path);
  if (!is_written_directly(path)) {
    if (!put_in_place(from, behind_links(path))) throw write_error(path, errno, wrong_path);
    return;
  }
  NewFile file(path, wrong_path);
  read_pieces(from, [&](std::string_view piece) { file << piece; });
  file.commit();
  ::unlink(from.c_str());
}

Error write_error(const std::string& path, int number, ExitCode wrong_path) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return {"the disk is full", path, "free some space, or write elsewhere", ExitCode::environment};
    case EFBIG:
      return {"the file would be larger than the limit on files", path, "raise the limit (ulimit -f)", ExitCode::environment};
    case EROFS:
    case EACCES:
    case EPERM:
      return {"the folder is read-only", path, "write elsewhere", wrong_path};
    case EISDIR:
      return {"this is a folder", path, "name a file", wrong_path};
    case ENOENT:
    case ENOTDIR:
      return {"there is no such folder", path, "name a file in a folder that exists", wrong_path};
    case ENAMETOOLONG:
      return {"the name is too long", path, "choose a shorter name, or a folder with a shorter path", wrong_path};
    case ELOOP:
    case EINVAL:
    case EBUSY:
      return {std::string("can't be written: ") + std::strerror(number), path, "name another file", wrong_path};
    default:
      return {std::string("can't be written: ") + std::strerror(number), path, "write elsewhere", ExitCode::environment};
  }
}

}  // namespace mptune
