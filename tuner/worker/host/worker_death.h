#pragma once

#include <limits>
#include <string>

#include "profiler/base/error.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {

/// What a worker's death says beside its status.
struct DeathCircumstances {
  std::string plug_in = {};    ///< file of the model if it is a plug-in; "" otherwise
  bool out_of_memory = false;  ///< the kernel's log says that it killed the worker for lack of memory
  double processor_time_limit_s = std::numeric_limits<double>::infinity();  ///< of the process (ulimit -t); infinity: any
};

/// Returns the file of a model that is a plug-in: "./libnet.so" for "./libnet.so:width=3"; "" for other models.
[[nodiscard]] std::string plug_in_of(const std::string& model);

/// Looks up the circumstances of a worker's end. `model`: the model as a request names it.
[[nodiscard]] DeathCircumstances circumstances_of(const WorkerEnd& end, const std::string& model);

/// Returns what a user is told about a worker that ended without an answer, with what it did at its end where that is known:
///
/// | the worker                                   | cause                                      | exit code       |
/// |----------------------------------------------|--------------------------------------------|-----------------|
/// | is slow, and its time is over                | the budget                                 | no_result       |
/// | was stopped by a signal                      | another program                            | environment     |
/// | did not run                                  | the machine                                | environment     |
/// | does something without an end, with plug-in  | the plug-in's code                         | usage           |
/// | does something without an end                | it takes longer than it may                | environment     |
/// | is quiet                                     | threads that wait for each other           | environment     |
/// | closed its pipe and went on                  | a mistake of ours                          | internal        |
/// | SIGXCPU, or SIGKILL at the limit             | ulimit -t                                  | environment     |
/// | SIGKILL                                      | lack of memory, or another program         | environment     |
/// | SIGTERM, SIGINT, SIGHUP                      | another program                            | environment     |
/// | another signal, sent by another process      | another program                            | environment     |
/// | any other signal or exit code, with plug-in  | the plug-in's code                         | usage           |
/// | any other signal or exit code                | a mistake of ours                          | internal        |
[[nodiscard]] Error death_of(const WorkerEnd& end, const DeathCircumstances& circumstances);

/// Returns why a silent worker was ended, in a clause without its name: "was stopped by a signal (SIGSTOP) for 10 s".
[[nodiscard]] std::string silence_text(const SilenceVerdict& silence);

/// Returns true if a signal ended the worker that another program sent, or that no mistake of a program raises. (SIGSEGV, SIGBUS, SIGILL,
/// SIGFPE, SIGABRT, SIGTRAP and SIGSYS are raised by mistakes.)
[[nodiscard]] bool ended_from_outside(const WorkerEnd& end);

/// Returns true if a line of the kernel's log says that it killed the process for lack of memory.
[[nodiscard]] bool killed_for_memory(const std::string& kernel_log, long process);

}  // namespace mptune::tuner
