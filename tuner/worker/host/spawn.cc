#include "tuner/worker/host/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "profiler/base/error.h"

extern char** environ;

namespace mptune::tuner {
namespace {

// With these variables set, OpenMP would move threads off the cores that the worker pins them to, or start another number of them.
constexpr std::array<std::string_view, 10> kUnset{"OMP_PROC_BIND",        "OMP_PLACES",  "GOMP_CPU_AFFINITY", "KMP_AFFINITY",
                                                  "OMP_NUM_THREADS",      "OMP_DYNAMIC", "OMP_THREAD_LIMIT",  "MKL_NUM_THREADS",
                                                  "OPENBLAS_NUM_THREADS", "MKL_DYNAMIC"};

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  void set(int fd) { fd_ = fd; }
  [[nodiscard]] int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(std::string("no pipe: ") + std::strerror(errno), "mptune-worker", "raise the limit of open files (ulimit -n)",
                  ExitCode::environment);
    }
    read.set(ends[0]);
    write.set(ends[1]);
  }
};

std::vector<char*> child_environment() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool unset = false;
    for (const std::string_view other : kUnset) unset = unset || name == other;
    if (!unset) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int request_fd;
  int reply_fd;
  int stderr_fd;
  int status_fd;
  int activity_fd;
};

// Runs between fork and exec, so it makes async-signal-safe calls only.
[[noreturn]] void become_worker(const Child& child) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(1);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT}) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(child.stderr_fd, STDOUT_FILENO);
  ::dup2(child.stderr_fd, STDERR_FILENO);
  ::fcntl(child.request_fd, F_SETFD, 0);
  ::fcntl(child.reply_fd, F_SETFD, 0);
  ::fcntl(child.activity_fd, F_SETFD, 0);
  ::execve(child.program, child.arguments, child.environment);
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(child.status_fd, &reason, sizeof reason);
  ::_exit(127);
}

int exec_error(int status_fd) {
  int reason = 0;
  ssize_t count = 0;
  do count = ::read(status_fd, &reason, sizeof reason);
  while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

[[noreturn]] void refuse_worker(const std::string& program, int reason) {
  throw Error(std::string("mptune-worker could not start: ") + std::strerror(reason), program,
              "install mptune again, or set MPTUNE_WORKER to the mptune-worker of this build", ExitCode::environment);
}

// Our ends of pipes must not take the numbers 0 to 2, which the child replaces.
void keep_above_standard(Descriptor& descriptor) {
  if (descriptor.get() > STDERR_FILENO) return;
  const int moved = ::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  descriptor.reset();
  descriptor.set(moved);
}

}  // namespace

Spawned spawn_worker(const std::string& program, int activity_fd) {
  Pipe request, reply, words, status;
  Descriptor activity;
  activity.set(::fcntl(activity_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  for (Descriptor* descriptor : {&request.read, &reply.write, &words.write, &status.write}) keep_above_standard(*descriptor);
  std::vector<std::string> texts{program,
                                 "--request-fd",
                                 std::to_string(request.read.get()),
                                 "--reply-fd",
                                 std::to_string(reply.write.get()),
                                 "--activity-fd",
                                 std::to_string(activity.get())};
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const std::vector<char*> environment = child_environment();
  const Child child{program.c_str(),   arguments.data(),  environment.data(), ::getpid(),    request.read.get(),
                    reply.write.get(), words.write.get(), status.write.get(), activity.get()};
  const pid_t pid = ::fork();
  if (pid < 0) refuse_worker(program, errno);
  if (pid == 0) become_worker(child);
  ::setpgid(pid, pid);
  status.write.reset();
  if (const int reason = exec_error(status.read.get()); reason != 0) {
    ::waitpid(pid, nullptr, 0);
    refuse_worker(program, reason);
  }
  for (const int fd : {request.write.get(), reply.read.get(), words.read.get()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return {pid, request.write.release(), reply.read.release(), words.read.release()};
}

}  // namespace mptune::tuner
