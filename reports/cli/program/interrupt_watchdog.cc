#include "reports/cli/program/interrupt_watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "profiler/base/machine_use.h"
#include "profiler/base/unfinished.h"
#include "reports/render/json.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::reports {
namespace {

void write_all(int descriptor, const std::string& text) {
  // A failure is ignored: the process is about to end.
  [[maybe_unused]] const ssize_t written = write(descriptor, text.data(), text.size());
}

std::atomic<std::chrono::milliseconds>& time_to_finish() {
  static std::atomic<std::chrono::milliseconds> time{std::chrono::milliseconds(600)};
  return time;
}

/// Whose object goes to stdout: the first who asks prints its object.
enum class Output { nobodys, of_result, of_interrupt, printed };
std::atomic<Output>& output() {
  static std::atomic<Output> whose{Output::nobodys};
  return whose;
}
bool take_output(Output taker) {
  Output before = Output::nobodys;
  return output().compare_exchange_strong(before, taker) || (taker == Output::of_result && before != Output::of_interrupt);
}

/// What to do after an interrupt; the watchdog reads it.
class InterruptRemedy {
 public:
  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = text;
  }
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_ = "start the command again";
};

InterruptRemedy& interrupt_remedy() {
  static InterruptRemedy remedy;
  return remedy;
}

/// Returns the processor time that may still be taken [s].
double processor_time_left_s() {
  return tuner::processor_time_limit_s() - processor_time_s();
}

constexpr std::chrono::milliseconds kPoll{50};

/// Makes an interrupt where the processor time runs out: a command that polls the flag has the rest of the time to end.
void wait_for_interrupt() {
  const double least_left_s = std::min(3.0, tuner::processor_time_limit_s() / 3);
  while (tuner::interrupt_flag().load() == 0) {
    int none = 0;
    if (processor_time_left_s() < least_left_s) tuner::interrupt_flag().compare_exchange_strong(none, SIGXCPU);
    std::this_thread::sleep_for(kPoll);
  }
}

/// Gives code that polls the flag time to end the command first, and all other code the processor time that is left.
void wait_for_the_end() {
  constexpr double kToSayIt = 0.7;  // s of processor time: this thread is woken late where others keep all cores busy
  const bool of_time = tuner::interrupt_flag().load() == SIGXCPU;
  const auto end = std::chrono::steady_clock::now() + time_to_finish().load();
  while ((of_time || std::chrono::steady_clock::now() < end) && processor_time_left_s() > kToSayIt) std::this_thread::sleep_for(kPoll);
  // Half a result is useless. Writing the rest takes little of the time that is left.
  constexpr double kToExit = 0.3;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (of_time && output().load() == Output::of_result && processor_time_left_s() > kToExit && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(kPoll / 10);
}

}  // namespace

void set_interrupt_remedy(const std::string& remedy) {
  interrupt_remedy().set(remedy);
}

void begin_result() {
  while (!take_output(Output::of_result)) std::this_thread::sleep_for(kPoll);  // waits until the watchdog ends the process
}

void end_result() {
  output() = Output::printed;
}

void leave_time_to_finish() {
  time_to_finish() = std::chrono::seconds(5);
}

void start_interrupt_watchdog(bool json) {
  std::thread([json] {
    wait_for_interrupt();
    wait_for_the_end();
    const tuner::InterruptText text = tuner::interrupt_text(interrupt_remedy().text());
    const int code = static_cast<int>(text.code);
    write_all(STDERR_FILENO, "mptune: " + text.what + ": mptune; " + text.remedy + "\n");
    if (json && take_output(Output::of_interrupt)) write_all(STDOUT_FILENO, dump(error_json(text.what, "mptune", text.remedy, code)));
    remove_unfinished();
    _exit(code);
  }).detach();
}

}  // namespace mptune::reports
