#include "tests/emulation/machine/observers.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace emulation {

namespace {

std::atomic<const Observer*> observer = nullptr;

std::shared_mutex& calls_of_observer() {
  static std::shared_mutex& mutex = *new std::shared_mutex;
  return mutex;
}

template <typename Record>
void tell(void (*Observer::*function)(const Record&), const Record& record) {
  if (observer.load(std::memory_order_relaxed) == nullptr) return;
  const std::shared_lock lock(calls_of_observer());
  const Observer* now = observer.load();
  if (now != nullptr && now->*function != nullptr) (now->*function)(record);
}

}  // namespace

void observe(const Observer* replacement) {
  const std::unique_lock lock(calls_of_observer());
  observer = replacement;
}

bool is_observed() {
  return observer.load(std::memory_order_relaxed) != nullptr;
}

void tell_api_begins(const ApiRecord& call) {
  tell(&Observer::api_begins, call);
}
void tell_api_ended(const ApiRecord& call) {
  tell(&Observer::api_ended, call);
}
void tell_work_ended(const WorkRecord& work) {
  tell(&Observer::work_ended, work);
}
void tell_event_recorded(const EventRecord& event) {
  tell(&Observer::event_recorded, event);
}
void tell_waited(const WaitRecord& wait) {
  tell(&Observer::waited, wait);
}

}  // namespace emulation
