#include "tuner/worker/host/rank_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tuner/worker/host/process_state.h"
#include "tuner/worker/host/program_words.h"

namespace mptune::tuner {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookAtRanks = std::chrono::milliseconds(10);
constexpr auto kGraceOfRanks = std::chrono::seconds(5);      // in which other ranks notice that one has failed
constexpr auto kGraceAfterFirst = std::chrono::seconds(30);  // in which other ranks end once rank 0 has
constexpr auto kLookForStopped = std::chrono::seconds(1);
constexpr int kLooksStopped = 10;
constexpr auto kGraceOfRanksSignal = std::chrono::milliseconds(500);
constexpr int kSignalled = 128;  // what a shell adds to a signal's number

[[noreturn]] void refuse_ranks(const char* what) {
  throw Error(std::string(what) + " (" + std::strerror(errno) + ")", "--ranks", "free memory, processes and ports", ExitCode::environment);
}

/// A port of the loopback that nobody has now.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!bound) refuse_ranks("no port is free for the ranks");
  ::close(fd);
  return ntohs(address.sin_port);
}

/// 128 random bits in hex digits.
std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0) refuse_ranks("there are no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

/// Where ranks find each other, and what they know it by.
struct Meeting {
  int port = free_port();
  std::string token = new_token();
};

std::vector<std::string> environment_of(int rank, int ranks, const Meeting& meeting) {
  // Of a launcher above us: we are none of its ranks.
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  return environment_with({{"RANK", std::to_string(rank)},
                           {"LOCAL_RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(ranks)},
                           {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(meeting.port)},
                           {"MPTUNE_RANKS_TOKEN", meeting.token}});
}

struct StartedRank {
  pid_t process = -1;
  int output_fd = -1;  ///< of the file that has what it prints; -1 for rank 0
  int status = 0;
  bool ended = false;
  int looks_stopped = 0;  ///< in a row
};

/// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_rank(char* const* words, char* const* environment, int output_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT, SIGXFSZ}) ::sigaction(signal, &standard, nullptr);
  if (output_fd >= 0) {
    const int null = ::open("/dev/null", O_RDWR);
    if (null >= 0) {
      ::dup2(null, STDIN_FILENO);
      ::dup2(null, STDERR_FILENO);
    }
    ::dup2(output_fd, STDOUT_FILENO);
  }
  ::execve(words[0], words, environment);
  ::_exit(kSignalled - 1);
}

StartedRank start_rank(std::vector<std::string> words, int rank, int ranks, const Meeting& meeting) {
  StartedRank started;
  if (rank > 0) started.output_fd = ::memfd_create("mptune rank", MFD_CLOEXEC);
  std::vector<std::string> environment = environment_of(rank, ranks, meeting);
  const std::vector<char*> arguments = pointers(words), variables = pointers(environment);
  const pid_t parent = ::getpid();
  started.process = ::fork();
  if (started.process < 0) refuse_ranks("a rank could not be started");
  if (started.process == 0) become_rank(arguments.data(), variables.data(), started.output_fd, parent);
  return started;
}

int shell_code_of(int status) {
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_in_file(int fd) {
  std::string text;
  char buffer[4096];
  ::lseek(fd, 0, SEEK_SET);
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, as_index(n));
  return text;
}

/// The started ranks. What is left of them ends with this.
class Ranks {
 public:
  Ranks(const std::vector<std::string>& words, const std::vector<std::string>& of_others, int ranks) {
    const Meeting meeting;
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        ranks_.push_back(start_rank(rank == 0 ? words : of_others, rank, ranks, meeting));
      } catch (...) {
        end();
        throw;
      }
    }
  }
  ~Ranks() { end(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Looks which have ended. True if any is left.
  bool any_left() {
    bool left = false;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      StartedRank& one = ranks_[as_index(rank)];
      if (!one.ended && ::waitpid(one.process, &one.status, WNOHANG) == one.process) {
        one.ended = true;
        if (one.status != 0 && failed_ < 0) failed_ = rank;
      }
      left = left || !one.ended;
    }
    return left;
  }
  [[nodiscard]] bool any_failed() const { return failed_ >= 0; }
  [[nodiscard]] bool first_ended() const { return ranks_[0].ended; }
  /// Looks which are stopped by a signal. True if one was at each of the last looks. A user who stops the command stops this process, too,
  /// so that looks count, not seconds.
  bool any_stopped() {
    for (StartedRank& one : ranks_) {
      const bool stopped = !one.ended && state_of_process(one.process).value_or(ProcessState{}).state == 'T';
      one.looks_stopped = stopped ? one.looks_stopped + 1 : 0;
    }
    return first_stopped() != ranks_.end();
  }
  void signal(int number) {
    for (const StartedRank& one : ranks_)
      if (!one.ended) ::kill(one.process, number);
  }
  [[nodiscard]] RanksEnd result() const {
    if (const auto stopped = first_stopped(); stopped != ranks_.end()) return killed(stopped, RanksEnd::Killed::stopped);
    if (failed_ < 0) return result_without_failure();
    const StartedRank& first = ranks_[0];
    const bool first_says_it = first.ended && WIFEXITED(first.status) && first.status != 0;
    const int rank = first_says_it ? 0 : failed_;
    const StartedRank& one = ranks_[as_index(rank)];
    RanksEnd ended{.exit_code = shell_code_of(one.status), .rank = rank, .output = {}};
    if (WIFSIGNALED(one.status)) ended.signal = WTERMSIG(one.status);
    if (one.output_fd >= 0) ended.output = text_in_file(one.output_fd);
    return ended;
  }

 private:
  using Place = std::vector<StartedRank>::const_iterator;
  [[nodiscard]] Place first_stopped() const {
    return std::ranges::find_if(ranks_, [](const StartedRank& one) { return one.looks_stopped >= kLooksStopped; });
  }
  [[nodiscard]] RanksEnd killed(Place rank, RanksEnd::Killed why) const {
    return {
        .exit_code = static_cast<int>(ExitCode::environment), .rank = static_cast<int>(rank - ranks_.begin()), .output = {}, .killed = why};
  }
  [[nodiscard]] RanksEnd result_without_failure() const {
    const auto left = std::ranges::find_if(ranks_, [](const StartedRank& one) { return !one.ended; });
    return left == ranks_.end() ? RanksEnd{} : killed(left, RanksEnd::Killed::too_late);
  }
  void end() {
    signal(SIGKILL);
    for (StartedRank& one : ranks_) {
      if (!one.ended) ::waitpid(one.process, &one.status, 0);
      one.ended = true;
      if (one.output_fd >= 0) ::close(one.output_fd);
      one.output_fd = -1;
    }
  }

  std::vector<StartedRank> ranks_;
  int failed_ = -1;  ///< the first that failed
};

}  // namespace

RanksEnd run_ranks(const std::vector<std::string>& words, const std::vector<std::string>& of_others, int ranks,
                   const std::atomic<int>& interrupted) {
  ::signal(SIGCHLD, SIG_DFL);  // a parent may have left it ignored
  Ranks started(words, of_others, ranks);
  auto limit = Clock::time_point::max(), next_look = Clock::now() + kLookForStopped;
  bool told = false;
  while (started.any_left() && Clock::now() < limit) {
    if (const int signal = interrupted.load(); signal != 0 && !told) {
      started.signal(signal);
      limit = Clock::now() + kGraceOfRanksSignal;
      told = true;
    }
    if (started.any_failed() && limit == Clock::time_point::max()) limit = Clock::now() + kGraceOfRanks;
    if (started.first_ended() && limit == Clock::time_point::max()) limit = Clock::now() + kGraceAfterFirst;
    if (Clock::now() >= next_look) {
      next_look = Clock::now() + kLookForStopped;
      if (started.any_stopped()) break;
    }
    std::this_thread::sleep_for(kLookAtRanks);
  }
  return started.result();
}

}  // namespace mptune::tuner
