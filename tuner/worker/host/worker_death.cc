#include "tuner/worker/host/worker_death.h"

#include <sys/klog.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <set>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::tuner {
namespace {

constexpr int kReadAll = 3, kSizeOfBuffer = 10;  // actions of syslog(2)

// Returns what dmesg prints; "" where this process may not read it.
std::string kernel_log() {
  const int size = ::klogctl(kSizeOfBuffer, nullptr, 0);
  if (size <= 0) return "";
  std::string log(as_index(size), '\0');
  const int read = ::klogctl(kReadAll, log.data(), size);
  log.resize(as_index(std::max(read, 0)));
  return log;
}

std::string how_it_ended(const WorkerEnd& end) {
  if (end.signal == 0) return "exited with code " + std::to_string(end.exit_code);
  return "was ended by signal " + std::to_string(end.signal) + " (" + ::strsignal(end.signal) + ")";
}

Error killed(const WorkerEnd& end, const DeathCircumstances& circumstances, const std::string& where) {
  const double limit_s = circumstances.processor_time_limit_s;
  if (std::isfinite(limit_s) && (end.signal == SIGXCPU || end.processor_time_s >= limit_s)) {
    return {"mptune-worker used all the processor time that it may, " + std::to_string(static_cast<long>(limit_s)) + " s", where,
            "raise the limit (ulimit -t)", ExitCode::environment};
  }
  if (circumstances.out_of_memory) {
    return {"the machine ran out of memory, and the kernel killed mptune-worker", where,
            "use a smaller --batch or fewer devices, or cap them with --memory", ExitCode::environment};
  }
  if (end.signal == SIGKILL) {
    return {"mptune-worker was killed, by another program or for lack of memory", where,
            "look into the kernel's log (dmesg); for lack of memory use a smaller --batch, or cap the devices with --memory",
            ExitCode::environment};
  }
  return {"mptune-worker " + how_it_ended(end) + " by another program", where, "start the command again", ExitCode::environment};
}

Error silent(const SilenceVerdict& silence, const DeathCircumstances& circumstances, const std::string& where) {
  const std::string what = "mptune-worker " + silence_text(silence);
  if (silence.silence == Silence::out_of_time) return {what, where, "give a larger --budget", ExitCode::no_result};
  if (silence.silence == Silence::stopped) return {what, where, "let nothing stop it, and start the command again", ExitCode::environment};
  if (silence.silence == Silence::lifeless)
    return {what, where, "free memory and processors (top, dmesg), and start the command again", ExitCode::environment};
  if (silence.silence == Silence::endless_activity && !circumstances.plug_in.empty())
    return {what, circumstances.plug_in, "let the plug-in's code end; if it is only slow, set MPTUNE_PATIENCE to the seconds it may take"};
  if (silence.silence == Silence::endless_activity)
    return {what, where, "use smaller micro-batches or a smaller --batch, or set MPTUNE_PATIENCE to the seconds it may take",
            ExitCode::environment};
  return {what, where, "set MPTUNE_DEBUG=1 to see what it does; report this", ExitCode::environment};
}

// How LibTorch begins an error that CUDA reports. The worker's last line is this error (tuner/worker/program/main.cc).
constexpr std::string_view kCudaError = "CUDA error: ";

/// `what`: "an illegal memory access was encountered on cuda:0, noticed in layer fc1".
Error gpu_failed(const std::string& what) {
  return {what, "CUDA",
          "correct the layers' own GPU code (compute-sanitizer finds the kernel); for a fault of the GPU, see dmesg and nvidia-smi",
          ExitCode::environment};
}

}  // namespace

bool ended_from_outside(const WorkerEnd& end) {
  static const std::set<int> kOfItsOwnMistakes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  return end.by_another || (end.signal != 0 && !kOfItsOwnMistakes.contains(end.signal));
}

bool killed_for_memory(const std::string& kernel_log, long process) {
  return kernel_log.find("Killed process " + std::to_string(process) + " ") != std::string::npos;
}

std::string plug_in_of(const std::string& model) {
  std::string file = model.substr(0, model.find(':'));
  return file.ends_with(".so") ? file : "";
}

DeathCircumstances circumstances_of(const WorkerEnd& end, const std::string& model) {
  DeathCircumstances circumstances;
  circumstances.plug_in = plug_in_of(model);
  circumstances.out_of_memory = end.signal == SIGKILL && killed_for_memory(kernel_log(), end.process);
  circumstances.processor_time_limit_s = processor_time_limit_s();
  return circumstances;
}

std::string silence_text(const SilenceVerdict& silence) {
  const std::string seconds = std::to_string(static_cast<long>(silence.seconds)) + " s";
  switch (silence.silence) {
    case Silence::stopped:
      return "was stopped by a signal (SIGSTOP) for " + seconds;
    case Silence::lifeless:
      return "gave no sign of life for " + seconds;
    case Silence::endless_activity:
    case Silence::long_activity:
      return "does not get to the end of " + silence.doing + ", which has taken " + seconds;
    case Silence::out_of_time:
      return "was not done when its time was over" + (silence.doing.empty() ? "" : ": it was in " + silence.doing);
    case Silence::quiet:
    case Silence::none:
      break;
  }
  return "did nothing for " + seconds;
}

Error death_of(const WorkerEnd& end, const DeathCircumstances& circumstances) {
  const std::string words = split(end.last_words, '\n').back();
  const std::string where = words.empty() ? "mptune-worker" : words;
  if (end.timed_out) return silent(end.silence, circumstances, where);
  if (end.closed_pipe)
    return {"mptune-worker closed its pipe and went on", where, "set MPTUNE_DEBUG=1 to see what it says; report this", ExitCode::internal};
  if (ended_from_outside(end)) return killed(end, circumstances, where);
  if (words.starts_with(kCudaError)) return gpu_failed(words.substr(kCudaError.size()));
  const std::string during = end.doing.empty() ? "" : " in " + end.doing;
  if (!circumstances.plug_in.empty()) {
    return {"mptune-worker " + how_it_ended(end) + (during.empty() ? " while it ran the code of a plug-in" : during) +
                (words.empty() ? "" : " (" + words + ")"),
            circumstances.plug_in, "let the plug-in throw exceptions, and neither crash nor exit: a debugger shows where it does"};
  }
  return {"mptune-worker " + how_it_ended(end) + during, where, "set MPTUNE_DEBUG=1 to see what it says; report this", ExitCode::internal};
}

}  // namespace mptune::tuner
