#include "tests/emulation/cupti/switches.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

#include "tests/emulation/cupti/record_walk.h"

namespace emulation::cupti {

namespace {

bool is_written(CUpti_ActivityKind kind) {
  constexpr std::array kWritten{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                CUPTI_ACTIVITY_KIND_MEMCPY,
                                CUPTI_ACTIVITY_KIND_MEMCPY2,
                                CUPTI_ACTIVITY_KIND_MEMSET,
                                CUPTI_ACTIVITY_KIND_RUNTIME,
                                CUPTI_ACTIVITY_KIND_DRIVER,
                                CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                                CUPTI_ACTIVITY_KIND_MARKER,
                                CUPTI_ACTIVITY_KIND_MARKER_DATA,
                                CUPTI_ACTIVITY_KIND_OVERHEAD,
                                CUPTI_ACTIVITY_KIND_DEVICE};
  return std::find(kWritten.begin(), kWritten.end(), kind) != kWritten.end();
}

std::set<int> read_refused_kinds() {
  const std::string text = setting_text("REFUSED_KINDS", "");
  std::set<int> kinds;
  std::istringstream items(text);
  std::string item;
  while (std::getline(items, item, ',')) {
    char* end = nullptr;
    kinds.insert(static_cast<int>(std::strtol(item.c_str(), &end, 10)));
    if (!item.empty() && *end == '\0') continue;
    std::fprintf(stderr, "EMULATED_REFUSED_KINDS=%s is not a list of numbers with commas between\n", text.c_str());
    std::_Exit(2);
  }
  return kinds;
}

bool is_refused(CUpti_ActivityKind kind) {
  static const std::set<int>& refused = *new std::set<int>(read_refused_kinds());
  return refused.contains(kind);
}

bool delivers_late() {
  static const bool late = setting("LATE_RECORDS", 0) != 0;
  return late;
}

}  // namespace

Switches& switches() {
  static Switches& object = *new Switches;
  return object;
}

CUptiResult Switches::enable(CUpti_ActivityKind kind) {
  if (!is_kind(kind) || record_size(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (is_refused(kind)) return CUPTI_ERROR_NOT_COMPATIBLE;
  if (!is_written(kind)) {
    (void)not_emulated(intern("CUPTI's activity kind " + std::to_string(kind)));
    return CUPTI_ERROR_NOT_SUPPORTED;
  }
  kinds_[kind].first = last_seen_ + 1;
  enable_calls(kind, true);
  kinds_[kind].on = true;
  return CUPTI_SUCCESS;
}

CUptiResult Switches::disable(CUpti_ActivityKind kind) {
  if (!is_kind(kind) || record_size(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  Kind& state = kinds_[kind];
  if (!state.on.exchange(false)) return CUPTI_SUCCESS;
  state.late_first = state.first.load();
  state.late_last = last_seen_.load();
  enable_calls(kind, false);
  return CUPTI_SUCCESS;
}

Switches::Calls* Switches::calls_of(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) return &runtime_;
  return kind == CUPTI_ACTIVITY_KIND_DRIVER ? &driver_ : nullptr;
}

// The kind overrides what was set for single calls before.
void Switches::enable_calls(CUpti_ActivityKind kind, bool yes) {
  Calls* calls = calls_of(kind);
  if (calls == nullptr) return;
  for (std::atomic<bool>& call : *calls) call = yes;
}

void Switches::enable_call(Domain domain, std::uint32_t id, bool yes) {
  if (id < kCalls) (domain == Domain::runtime ? runtime_ : driver_)[id] = yes;
}

void Switches::disable_all() {
  for (Kind& kind : kinds_) kind.on = false;
  enable_calls(CUPTI_ACTIVITY_KIND_RUNTIME, false);
  enable_calls(CUPTI_ACTIVITY_KIND_DRIVER, false);
}

bool Switches::records_call(Domain domain, int id) const {
  if (id <= 0 || static_cast<std::size_t>(id) >= kCalls) return false;
  return (domain == Domain::runtime ? runtime_ : driver_)[static_cast<std::size_t>(id)];
}

bool Switches::records_work(CUpti_ActivityKind kind, std::uint32_t correlation) const {
  const Kind& state = kinds_[kind];
  if (correlation == 0) return state.on;
  if (correlation < first_seen_) return false;
  if (state.on && correlation >= state.first) return true;
  return delivers_late() && state.late_first <= correlation && correlation <= state.late_last;
}

void Switches::call_began(std::uint32_t correlation) {
  std::uint32_t first = first_seen_;
  while (correlation < first && !first_seen_.compare_exchange_weak(first, correlation)) {
  }
  std::uint32_t last = last_seen_;
  while (correlation > last && !last_seen_.compare_exchange_weak(last, correlation)) {
  }
}

}  // namespace emulation::cupti
