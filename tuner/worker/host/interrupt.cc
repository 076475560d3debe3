#include "tuner/worker/host/interrupt.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <limits>

namespace mptune::tuner {

std::atomic<int>& interrupt_flag() {
  static std::atomic<int> flag{0};
  static_assert(std::atomic<int>::is_always_lock_free);
  return flag;
}

void install_interrupt_handlers() {
  // The flag is constructed here, because a signal handler must not construct it.
  interrupt_flag().store(0);
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    int none = 0;
    if (!interrupt_flag().compare_exchange_strong(none, signal)) ::_exit(128 + signal);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (signal != SIGHUP || before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);  // nohup ignores it
  }
}

InterruptText interrupt_text(const std::string& remedy) {
  const int signal = interrupt_flag().load();
  if (signal == SIGTERM) return {"terminated", remedy, ExitCode::terminated};
  if (signal == SIGHUP) return {"terminated: the terminal hung up (SIGHUP)", remedy, ExitCode::terminated};
  if (signal == SIGQUIT) return {"terminated (SIGQUIT)", remedy, ExitCode::terminated};
  if (signal != SIGXCPU) return {"interrupted", remedy, ExitCode::interrupted};
  const std::string limit = std::to_string(static_cast<long>(processor_time_limit_s())) + " s";
  return {"mptune has nearly used all the processor time that it may, " + limit, "raise the limit (ulimit -t); " + remedy,
          ExitCode::environment};
}

Error interrupt_error(const std::string& where, const std::string& remedy) {
  const InterruptText text = interrupt_text(remedy);
  return {text.what, where, text.remedy, text.code};
}

double processor_time_limit_s() {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? static_cast<double>(limit.rlim_cur) : std::numeric_limits<double>::infinity();
}

}  // namespace mptune::tuner
