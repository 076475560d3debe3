#include "tests/emulation/machine/shared_machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace emulation {

namespace {

/// Of /proc/PID/stat: when it was started. 0: no such process, or it has ended and nobody asked for its exit code yet.
std::uint64_t start_of(pid_t process) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char text[1024] = {};
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const char* behind_name = size == 0 ? nullptr : std::strrchr(text, ')');
  if (behind_name == nullptr || behind_name[1] == '\0') return 0;
  const char state = behind_name[2];
  if (state == 'Z' || state == 'X') return 0;
  const char* field = behind_name + 2;
  for (int i = 3; i < 22 && field != nullptr; ++i) {
    field = std::strchr(field, ' ');
    if (field != nullptr) ++field;
  }
  return field == nullptr ? 0 : std::strtoull(field, nullptr, 10);
}

bool lives(const SharedProcess& known) {
  return known.process != 0 && start_of(known.process) == known.started;
}

[[noreturn]] void fail(const char* what, const std::string& name) {
  std::fprintf(stderr, "emulated machine '%s': %s: %s\n", name.c_str(), what, std::strerror(errno));
  std::_Exit(2);
}

void initialise(SharedState& state) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&state.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  state.initialised = true;
}

/// True if its owner died.
bool lock_robustly(pthread_mutex_t& mutex) {
  if (pthread_mutex_lock(&mutex) != EOWNERDEAD) return false;
  pthread_mutex_consistent(&mutex);
  return true;
}

/// Requires: the state is locked.
void forget_dead(SharedState& state) {
  const pid_t self = getpid();
  for (SharedProcess& known : state.processes) {
    if (known.process == 0 || known.process == self || lives(known)) continue;
    for (SharedGpu& gpu : state.gpus)
      for (SharedRequest& request : gpu.requests)
        if (request.process == known.process) request = {};
    known = {};
  }
}

class SharedMachine {
 public:
  SharedMachine() : name_(setting_text("MACHINE", "")) {
    name_.empty() ? make_own() : join();
    process_ = getpid();
    lock_robustly(state_->mutex);
    enter();
    pthread_mutex_unlock(&state_->mutex);
  }

  /// The last process removes the file.
  void leave() {
    if (process_ != getpid()) return;  // a child by fork()
    if (file_ >= 0) flock(file_, LOCK_EX);
    lock_robustly(state_->mutex);
    state_->processes[mine_] = {};
    const bool others = std::any_of(std::begin(state_->processes), std::end(state_->processes), lives);
    pthread_mutex_unlock(&state_->mutex);
    if (file_ < 0) return;
    if (!others) shm_unlink(path().c_str());
    flock(file_, LOCK_UN);
  }

  [[nodiscard]] SharedState& state() const { return *state_; }
  [[nodiscard]] SharedProcess& mine() const { return state_->processes[mine_]; }

 private:
  [[nodiscard]] std::string path() const { return "/mptune-emulated-" + name_; }

  void map(int flags, int file) {
    void* memory = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED) fail("no memory", name_);
    state_ = static_cast<SharedState*>(memory);
    if (!state_->initialised) initialise(*state_);
  }

  void make_own() { map(MAP_PRIVATE | MAP_ANONYMOUS, -1); }

  /// Under the file's lock, which a process that leaves holds, too: what is opened here is not about to be removed.
  void join() {
    for (;;) {
      file_ = shm_open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (file_ < 0 || flock(file_, LOCK_EX) != 0) fail("its shared memory cannot be opened", name_);
      struct stat found {};
      if (fstat(file_, &found) == 0 && found.st_nlink > 0) break;
      close(file_);
    }
    if (ftruncate(file_, sizeof(SharedState)) != 0) fail("its shared memory has no room", name_);
    map(MAP_SHARED, file_);
    flock(file_, LOCK_UN);
  }

  void enter() {
    forget_dead(*state_);
    for (mine_ = 0; mine_ < kMostProcesses; ++mine_) {
      SharedProcess& place = state_->processes[mine_];
      if (place.process != 0) continue;
      place.process = process_;
      place.started = start_of(process_);
      return;
    }
    errno = EAGAIN;
    fail("too many processes", name_);
  }

  std::string name_;
  int file_ = -1;
  pid_t process_ = 0;
  std::size_t mine_ = 0;
  SharedState* state_ = nullptr;
};

std::atomic<bool> is_made = false;

SharedMachine& machine() {
  static SharedMachine* const made = [] {
    auto* fresh = new SharedMachine;
    is_made = true;
    return fresh;
  }();
  return *made;
}

}  // namespace

SharedLock::SharedLock() : state_(machine().state()) {
  if (lock_robustly(state_.mutex)) forget_dead_processes();
}

SharedLock::~SharedLock() {
  pthread_mutex_unlock(&state_.mutex);
}

void SharedLock::forget_dead_processes() const {
  forget_dead(state_);
}

void leave_shared_machine() {
  if (is_made.exchange(false)) machine().leave();
}

bool take_memory(int gpu, std::uint64_t bytes, std::uint64_t limit) {
  const SharedLock lock;
  const auto used = [&] {
    std::uint64_t sum = 0;
    for (const SharedProcess& process : lock->processes) sum += process.used[gpu];
    return sum;
  };
  if (bytes > limit) return false;
  if (used() + bytes > limit) lock.forget_dead_processes();
  if (used() + bytes > limit) return false;
  machine().mine().used[gpu] += bytes;
  return true;
}

void give_memory(int gpu, std::uint64_t bytes) {
  const SharedLock lock;
  machine().mine().used[gpu] -= bytes;
}

std::uint64_t used_memory(int gpu) {
  const SharedLock lock;
  lock.forget_dead_processes();
  std::uint64_t sum = 0;
  for (const SharedProcess& process : lock->processes) sum += process.used[gpu];
  return sum;
}

}  // namespace emulation
