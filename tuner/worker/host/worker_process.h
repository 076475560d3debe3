#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "profiler/base/error.h"
#include "tuner/worker/host/worker_watch.h"
#include "tuner/worker/messages.h"

namespace mptune::tuner {

/// Returns where `mptune-worker` is: at `MPTUNE_WORKER`, beside the running program, or in ../libexec/mptune. Throws Error (environment)
/// with the remedy.
[[nodiscard]] std::string find_worker();

/// Returns where the library is that records a CUDA program from within: libmptune_injection.so beside the running program, or in
/// ../libexec/mptune. Throws Error (environment) with the remedy.
[[nodiscard]] std::string find_injection();

/// How a worker ended without saying Done or Failed.
struct WorkerEnd {
  int signal = 0;
  int exit_code = 0;
  bool by_another = false;      ///< the signal came from another program, not from a mistake of the worker's own
  bool timed_out = false;       ///< this process ended it
  bool interrupted = false;     ///< this process ended it, as it was interrupted itself
  bool closed_pipe = false;     ///< this process ended it, as it had closed its pipe and went on
  SilenceVerdict silence = {};  ///< why it timed out; nothing where a reply took too long
  std::string doing = {};       ///< what the worker did at its end, "" where that is not known
  long process = 0;             ///< its process ID
  double processor_time_s = 0;  ///< processor time that it used
  std::string last_words;       ///< tail of its stderr, for people only: decisions never read it
};

/// A worker in a process group of its own, started by exec. It dies with this object, and with this process even if that is killed.
/// Use from one thread, which outlives it: the kernel ends the worker with the thread that started it.
class WorkerProcess {
 public:
  /// Starts the program and sends `request`. Throws Error (environment) if it can't be started.
  WorkerProcess(const std::string& program, const Request& request, WaitOptions wait = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Returns the next reply, or how the worker ended. Waits at most `timeout_s`, and only as long as the worker's silence is within the
  /// limits; after that it kills the group and reports timed_out. Looks at `interrupted` at least every 50 ms. Throws Error (environment)
  /// with the remedy for a worker that could not load its libraries, and for one that speaks another protocol version.
  [[nodiscard]] std::variant<Reply, WorkerEnd> next(double timeout_s, const std::atomic<int>& interrupted);

  /// Kills the whole group and reaps it.
  void kill();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws what the worker says: PlanFailed where a plan's failure is the reason, else Error.
[[noreturn]] void throw_failed(const Failed& failed);

/// The worker was ended because its time was over (WaitLimits::ends_s), not because it was stuck.
class OutOfTime : public Error {
 public:
  explicit OutOfTime(const Error& error) : Error(error) {}
};

/// Runs one request to its end: `on_reply` sees every reply but Hello, Done and Failed. Throws what throw_failed() throws for Failed, what
/// interrupt_error() returns for an interrupt, and what worker_death.h says for any other end, as OutOfTime where the time was over.
void call_worker(const Request& request, const WaitOptions& wait, const std::function<void(const Reply&)>& on_reply);

}  // namespace mptune::tuner
