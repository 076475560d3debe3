#include "tuner/worker/host/program_run.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "profiler/base/error.h"
#include "tuner/worker/host/process_state.h"
#include "tuner/worker/host/program_words.h"

namespace mptune::tuner {
namespace {

constexpr auto kLook = std::chrono::milliseconds(10);
constexpr auto kGrace = std::chrono::milliseconds(300);

[[noreturn]] void refuse(const std::string& program, int reason) {
  if (reason == ENOENT) throw Error("the command was not found", program, "check its name and PATH");
  if (reason == EACCES) throw Error("the command is not executable", program, "name a program, or start it through its interpreter");
  if (reason == ENOEXEC) throw Error("the command is not a program", program, "start it through its interpreter");
  throw Error(std::string("the command could not start (") + std::strerror(reason) + ")", program, "free memory and processes",
              ExitCode::environment);
}

pid_t start(std::vector<std::string> words, const ProgramOptions& options) {
  std::vector<std::string> environment = environment_with(options.variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.output_to_errors) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  // The program does not ignore the signals that this process ignores.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t standard;
  ::sigemptyset(&standard);
  ::sigaddset(&standard, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int refused = posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, pointers(words).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) refuse(words[0], refused);
  return pid;
}

// Returns all living processes that descend from this one.
std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    const auto process = static_cast<pid_t>(std::stol(name));
    if (const auto about = state_of_process(process); about && about->state != 'Z') children.emplace(about->parent, process);
  }
  std::vector<pid_t> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void end_all(int signal) {
  for (const pid_t process : descendants()) ::kill(process, signal);
  const auto limit = std::chrono::steady_clock::now() + kGrace;
  while (!descendants().empty() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(kLook);
  for (const pid_t process : descendants()) ::kill(process, SIGKILL);
}

bool ended(pid_t pid, int& status) {
  const pid_t changed = ::waitpid(pid, &status, WNOHANG);
  if (changed < 0 && errno != EINTR)
    throw Error(std::string("how the command ended is not known (") + std::strerror(errno) + ")", "waitpid", "start it again",
                ExitCode::environment);
  return changed == pid;
}

ProgramEnd end_of(int status, bool interrupted) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status), .interrupted = interrupted};
  return {.exit_code = WEXITSTATUS(status), .interrupted = interrupted};
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options, const std::atomic<int>& interrupted) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // A parent may have left SIGCHLD ignored; then waitpid() could not return the status of a child.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t pid = start(words, options);
  int status = 0;
  while (!ended(pid, status) && interrupted.load() == 0) std::this_thread::sleep_for(kLook);
  if (const int signal = interrupted.load(); signal != 0) {
    end_all(signal);
    ::waitpid(pid, &status, 0);
    return end_of(status, true);
  }
  return end_of(status, false);
}

}  // namespace mptune::tuner
