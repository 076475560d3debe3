#include "tuner/worker/host/worker_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <type_traits>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/base/text.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/spawn.h"
#include "tuner/worker/host/worker_death.h"

namespace mptune::tuner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 20;
constexpr std::size_t kLongestLine = std::size_t{256} << 20;
constexpr std::size_t kLastWords = 4096;
constexpr auto kGraceToExit = std::chrono::seconds(2);

// Ignores SIGPIPE: a write to a worker that has ended fails with EPIPE instead of ending this process.
ssize_t write_without_signal(int fd, const char* data, std::size_t size) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t count = ::write(fd, data, size);
  const int reason = errno;
  if (count < 0 && reason == EPIPE && !was_pending) {
    const timespec at_once{};
    while (sigtimedwait(&pipe_signal, nullptr, &at_once) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count;
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

std::string trimmed(const std::string& text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

bool executable(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

std::string own_folder() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string program(path.data(), as_index(std::max<ssize_t>(size, 0)));
  return program.substr(0, program.find_last_of('/'));
}

/// Numbers the requests that name devices of ranks: the ranks serve them in the order in which rank 0 makes them.
Request numbered(Request request) {
  static int next = 0;
  std::visit(
      [](auto& any) {
        using Asked = std::remove_cvref_t<decltype(any)>;
        constexpr bool is_shared = std::is_same_v<Asked, MeasureRequest> || std::is_same_v<Asked, SeriesRequest> ||
                                   std::is_same_v<Asked, RecordRequest> || std::is_same_v<Asked, TrainRequest>;
        if (is_shared && std::ranges::any_of(any.setup.devices, names_rank)) any.setup.rank_call = next++;
      },
      request);
  return request;
}

// Returns the file that the worker writes for a request, and of which it may leave a part when it is killed; "" for none.
std::string output_of(const Request& request) {
  if (const auto* measure = std::get_if<MeasureRequest>(&request)) return measure->path;
  if (const auto* record = std::get_if<RecordRequest>(&request)) return record->path;
  if (const auto* train = std::get_if<TrainRequest>(&request)) return train->save;
  return "";
}

}  // namespace

std::string find_worker() {
  const char* asked = std::getenv("MPTUNE_WORKER");
  if (asked != nullptr && *asked != '\0') {
    if (executable(asked)) return asked;
    throw Error("MPTUNE_WORKER does not name a program", asked, "unset it, or set it to the path of mptune-worker", ExitCode::environment);
  }
  const std::string folder = own_folder();
  for (const char* place : {"/mptune-worker", "/../libexec/mptune/mptune-worker"})
    if (executable(folder + place)) return folder + place;
  throw Error("mptune-worker was not found", folder, "build with LibTorch (-DMPTUNE_TORCH_ROOT=...), install again, or set MPTUNE_WORKER",
              ExitCode::environment);
}

std::string find_injection() {
  const std::string folder = own_folder(), name = "/libmptune_injection.so";
  for (const char* place : {"", "/../libexec/mptune"})
    if (::access((folder + place + name).c_str(), R_OK) == 0) return std::filesystem::canonical(folder + place + name).string();
  throw Error("the recorder of CUDA programs was not found", folder + name,
              "build with the headers of CUPTI 13 (a CUDA 13 toolkit; MPTUNE_CUDA=ON), or install again", ExitCode::environment);
}

struct WorkerProcess::Impl {
  Impl(std::string name, const Request& asked, WaitOptions wait)
      : program(std::move(name)),
        watch(std::move(wait)),
        process(spawn_worker(program, watch.descriptor())),
        output(output_of(asked)),
        request(encode(numbered(asked)) + "\n") {}

  std::string program;
  WorkerWatch watch;
  Spawned process;
  std::string output;
  std::string request;  // the part that is not sent yet
  std::string replies;  // what has been read but not taken yet
  std::size_t searched = 0;
  std::string last_words;
  bool show_words = std::getenv("MPTUNE_DEBUG") != nullptr;
  bool greeted = false;
  bool finished = false;  // the worker said Done or Failed
  bool reaped = false;
  bool killed = false;
  int status = 0;
  rusage used{};

  void send();
  void listen();
  void read_words();
  bool read_replies();
  std::optional<std::string> take_line();
  Reply greet(Reply reply);
  bool reap(bool wait);
  void kill_group();
  WorkerEnd end();
  WorkerEnd end_now(bool interrupted, const SilenceVerdict& silence);
};

void WorkerProcess::Impl::send() {
  while (process.request_fd >= 0 && !request.empty()) {
    const ssize_t count = write_without_signal(process.request_fd, request.data(), request.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) request.clear();
    if (count > 0) request.erase(0, as_index(count));
  }
  close_fd(process.request_fd);
}

void WorkerProcess::Impl::read_words() {
  std::array<char, 16384> data;
  while (process.stderr_fd >= 0) {
    const ssize_t count = ::read(process.stderr_fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close_fd(process.stderr_fd);
    const auto size = as_index(count);
    last_words.append(data.data(), size);
    if (last_words.size() > kLastWords) last_words.erase(0, last_words.size() - kLastWords);
    if (show_words) [[maybe_unused]]
      const auto shown = ::write(STDERR_FILENO, data.data(), size);
    if (size < data.size()) return;
  }
}

// Returns false at the end of the pipe.
bool WorkerProcess::Impl::read_replies() {
  std::array<char, 65536> data;
  while (true) {
    const ssize_t count = ::read(process.reply_fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    replies.append(data.data(), as_index(count));
    if (as_index(count) < data.size()) return true;
  }
}

std::optional<std::string> WorkerProcess::Impl::take_line() {
  const auto line_break = replies.find('\n', searched);
  if (line_break == std::string::npos) {
    searched = replies.size();
    if (replies.size() > kLongestLine) {
      throw Error("a message of mptune-worker has no end", program, "make sure that both programs are of the same build",
                  ExitCode::internal);
    }
    return std::nullopt;
  }
  std::string line = replies.substr(0, line_break);
  replies.erase(0, line_break + 1);
  searched = 0;
  return line;
}

Reply WorkerProcess::Impl::greet(Reply reply) {
  const Hello* hello = std::get_if<Hello>(&reply);
  if (hello != nullptr && hello->protocol != kProtocolVersion) {
    throw Error("mptune-worker is of another version (protocol " + std::to_string(hello->protocol) + ", " +
                    std::to_string(kProtocolVersion) + " is needed)",
                program, "install mptune and mptune-worker of the same version, or set MPTUNE_WORKER", ExitCode::environment);
  }
  greeted = greeted || hello != nullptr;
  finished = finished || std::holds_alternative<Done>(reply) || std::holds_alternative<Failed>(reply);
  return reply;
}

bool WorkerProcess::Impl::reap(bool wait) {
  while (!reaped) {
    const pid_t pid = ::wait4(process.pid, &status, wait ? 0 : WNOHANG, &used);
    if (pid < 0 && errno == EINTR) continue;
    if (pid == 0) return false;
    reaped = true;
  }
  return true;
}

void WorkerProcess::Impl::kill_group() {
  // The group is killed only once: later the process ID may belong to another process.
  if (std::exchange(killed, true)) return;
  ::kill(-process.pid, SIGKILL);
  reap(true);
  if (!output.empty()) remove_uncommitted(output, process.pid);
}

WorkerEnd WorkerProcess::Impl::end() {
  const auto limit = Clock::now() + kGraceToExit;
  while (!reap(false) && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  read_words();
  WorkerEnd how;
  how.closed_pipe = !reaped;
  kill_group();
  how.last_words = trimmed(last_words);
  if (WIFSIGNALED(status)) how.signal = WTERMSIG(status);
  if (WIFEXITED(status)) how.exit_code = WEXITSTATUS(status);
  how.by_another = watch.ended_by_another();
  how.process = process.pid;
  how.processor_time_s = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  how.doing = watch.doing();
  if (greeted) return how;
  if (ended_from_outside(how)) throw death_of(how, circumstances_of(how, ""));
  const std::string words = how.last_words.empty() && how.signal != 0 ? ::strsignal(how.signal) : split(how.last_words, '\n').back();
  constexpr int kLoaderFailed = 127;  // exit code of the dynamic loader where a library is not there, or can't be mapped
  const bool library = how.exit_code == kLoaderFailed;
  throw Error("mptune-worker could not start" + (words.empty() ? "" : ": " + words), program,
              library ? "build with a LibTorch that is there (-DMPTUNE_TORCH_ROOT=...), install it again, or set MPTUNE_WORKER"
                      : "free memory and processes, raise their limits (ulimit -a), or install mptune and its LibTorch again",
              ExitCode::environment);
}

WorkerEnd WorkerProcess::Impl::end_now(bool interrupted, const SilenceVerdict& silence) {
  finished = false;
  const std::string doing = watch.doing();
  kill_group();
  read_words();
  return {.signal = SIGKILL,
          .timed_out = !interrupted,
          .interrupted = interrupted,
          .silence = silence,
          .doing = doing,
          .process = process.pid,
          .last_words = trimmed(last_words)};
}

// Waits a moment for something to read.
void WorkerProcess::Impl::listen() {
  std::array<pollfd, 3> fds{{{process.reply_fd, POLLIN, 0}, {process.stderr_fd, POLLIN, 0}, {process.request_fd, POLLOUT, 0}}};
  ::poll(fds.data(), fds.size(), kLookMs);
  send();
  read_words();
}

WorkerProcess::WorkerProcess(const std::string& program, const Request& request, WaitOptions wait)
    : impl_(std::make_unique<Impl>(program, request, std::move(wait))) {
  impl_->send();
}

WorkerProcess::~WorkerProcess() {
  // A finished worker may still write output of its libraries.
  const auto limit = Clock::now() + kGraceToExit;
  while (impl_->finished && !impl_->reap(false) && Clock::now() < limit) {
    impl_->read_words();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill();
  close_fd(impl_->process.request_fd);
  close_fd(impl_->process.reply_fd);
  close_fd(impl_->process.stderr_fd);
}

void WorkerProcess::kill() {
  impl_->kill_group();
}

std::variant<Reply, WorkerEnd> WorkerProcess::next(double timeout_s, const std::atomic<int>& interrupted) {
  auto limit = Clock::now() + std::chrono::duration<double>(std::min(timeout_s, 1e9));
  while (true) {
    if (auto line = impl_->take_line()) {
      impl_->watch.note_reply();
      return impl_->greet(decode_reply(*line));
    }
    impl_->listen();
    const bool gone = impl_->reap(false);
    const bool open = impl_->read_replies();
    if (impl_->replies.find('\n') != std::string::npos) continue;
    if (gone || !open) return impl_->end();
    const SilenceVerdict silence = impl_->watch.look(impl_->process.pid);
    limit += std::chrono::duration<double>(impl_->watch.missed_s());
    if (interrupted.load() != 0) return impl_->end_now(true, {});
    if (ends_worker(silence.silence)) return impl_->end_now(false, silence);
    if (Clock::now() >= limit) return impl_->end_now(false, {});
  }
}

namespace {

[[noreturn]] void throw_end(const WorkerEnd& end, const Request& request) {
  if (end.interrupted) throw interrupt_error("mptune-worker", "start the command again");
  const std::string model = std::visit([](const auto& any) { return any.setup.model; }, request);
  const Error death = death_of(end, circumstances_of(end, model));
  if (end.silence.silence == Silence::out_of_time) throw OutOfTime(death);
  throw death;
}

}  // namespace

void throw_failed(const Failed& failed) {
  const Error error(failed.what, failed.where, failed.remedy, static_cast<ExitCode>(failed.exit_code));
  if (failed.outcome) throw PlanFailed(error, *failed.outcome);
  throw error;
}

void call_worker(const Request& request, const WaitOptions& wait, const std::function<void(const Reply&)>& on_reply) {
  constexpr double kNoLimit = 1e9;  // the worker's silence is judged instead
  WorkerProcess worker(find_worker(), request, wait);
  while (true) {
    const auto next = worker.next(kNoLimit, interrupt_flag());
    if (const auto* end = std::get_if<WorkerEnd>(&next)) throw_end(*end, request);
    const Reply& reply = std::get<Reply>(next);
    if (std::holds_alternative<Done>(reply)) return;
    if (const auto* failed = std::get_if<Failed>(&reply)) throw_failed(*failed);
    if (!std::holds_alternative<Hello>(reply)) on_reply(reply);
  }
}

}  // namespace mptune::tuner
