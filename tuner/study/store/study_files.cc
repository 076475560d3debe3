#include "tuner/study/store/study_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

namespace fs = std::filesystem;

// NFS, SMB, CIFS, SMB2, AFS, 9P, Ceph, Lustre, GPFS, FUSE, OCFS2, BeeGFS.
constexpr std::array<unsigned long, 12> kNetworkTypes{0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x5346414F, 0x01021997,
                                                      0x00C36400, 0x0BD00BD0, 0x47504653, 0x65735546, 0x7461636F, 0x19830326};

[[noreturn]] void not_writable(const std::string& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EIO;
  throw Error(std::string("can't write the study: ") + std::strerror(reason), path,
              "make the folder writable, free some space, or give another -o", full ? ExitCode::environment : ExitCode::usage);
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.rfind("study.sqlite", 0) == 0 || name == "report.html" || ends_with(name, ".plan.json");
}

}  // namespace

bool is_network_file_system(long type) {
  const auto number = static_cast<unsigned long>(type) & 0xFFFFFFFFul;
  return std::find(kNetworkTypes.begin(), kNetworkTypes.end(), number) != kNetworkTypes.end();
}

bool on_network_file_system(const std::string& path) {
  struct statfs status {};
  return ::statfs(path.c_str(), &status) == 0 && is_network_file_system(static_cast<long>(status.f_type));
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/study.lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) not_writable(path, errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  ::close(fd_);
  if (reason != EWOULDBLOCK) not_writable(path, reason);
  throw Error("another mptune is using this study", folder, "wait for it to end, or give another -o");
}

FolderLock::~FolderLock() {
  ::close(fd_);
}

bool is_empty_study_folder(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name == "traces" && fs::is_empty(entry.path(), failed)) continue;
    if (name == "study.lock") continue;
    // The Python package puts the program of an nn.Module there before the study begins, next to a lock.
    if (ends_with(name, ".pt2") && fs::exists(folder + "/study.lock", failed)) continue;
    // An interrupted creation leaves no header, or one without our application ID and a journal next to the file.
    if (name == "study.sqlite" && (entry.file_size(failed) == 0 || fs::exists(folder + "/study.sqlite-journal"))) continue;
    if (name == "study.sqlite-journal" || name == "study.sqlite-wal" || name == "study.sqlite-shm") continue;
    return false;
  }
  return !failed;
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) not_writable(folder, failed.value());
}

void make_study_folder(const std::string& folder) {
  make_folder(folder + "/traces");
}

void remove_study_files(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (!is_ours(entry.path())) continue;
    fs::remove(entry.path(), failed);
    if (failed) not_writable(entry.path().string(), failed.value());
  }
  for (const auto& [inside, ending] : {std::pair("/traces", ".sqlite"), std::pair("/failed", ".plan.json")})
    for (const auto& entry : fs::directory_iterator(folder + inside, failed))
      if (ends_with(entry.path().string(), ending)) fs::remove(entry.path(), failed);
}

long long sqlite_header_number(const std::string& path, int place) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 100> header{};
  if (!file.read(header.data(), header.size()) || std::memcmp(header.data(), "SQLite format 3", 16) != 0) return -1;
  long long number = 0;
  for (int i = 0; i < 4; ++i) number = number * 256 + static_cast<unsigned char>(header[as_index(place + i)]);
  return number;
}

}  // namespace mptune::tuner
