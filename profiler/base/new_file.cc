#include "profiler/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "profiler/base/index.h"

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

bool put_in_place(const std::string& from, const std::string& path) {
  if (std::rename(from.c_str(), path.c_str()) != 0) return false;
  sync_folder_of(path);
  return true;
}

}  // namespace

NewFile::NewFile(std::string path, ExitCode wrong_path) : path_(std::move(path)), wrong_path_(wrong_path) {
  static std::atomic<int> count{0};
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = path_ + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == kMostNames)) fail();
  }
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
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
  const bool safe = sync_and_close(descriptor_);
  descriptor_ = -1;
  if (!safe || !put_in_place(temporary_, path_)) fail();
  temporary_.clear();
}

void NewFile::fail() const {
  throw write_error(path_, errno, wrong_path_);
}

void move_file(const std::string& from, const std::string& path, ExitCode wrong_path) {
  const int descriptor = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || !sync_and_close(descriptor) || !put_in_place(from, path)) throw write_error(path, errno, wrong_path);
}

Error write_error(const std::string& path, int number, ExitCode wrong_path) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return {"the disk is full", path, "free some space, or write elsewhere", ExitCode::environment};
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
      return {"the name is too long", path, "choose a shorter name", wrong_path};
    case ELOOP:
    case EINVAL:
    case EBUSY:
      return {std::string("can't be written: ") + std::strerror(number), path, "name another file", wrong_path};
    default:
      return {std::string("can't be written: ") + std::strerror(number), path, "write elsewhere", ExitCode::environment};
  }
}

}  // namespace mptune
