#include "profiler/trace/formats/kineto_rows.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <unordered_map>

#include "profiler/base/text.h"
#include "profiler/trace/ranks/pipeline_ranges.h"

namespace mptune::profiler {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string microseconds(Nanoseconds time) {
  std::array<char, 40> text{};
  const long long ns = time.count();
  std::snprintf(text.data(), text.size(), "%s%lld.%03lld", ns < 0 ? "-" : "", std::llabs(ns / 1000), std::llabs(ns % 1000));
  return text.data();
}

}  // namespace

KinetoRow kineto_row(const ChromeEvent& event) {
  static const std::unordered_map<std::string_view, KinetoRow> rows = {{"kernel", KinetoRow::kernel},
                                                                       {"Kernel", KinetoRow::kernel},
                                                                       {"gpu_memcpy", KinetoRow::copy},
                                                                       {"Memcpy", KinetoRow::copy},
                                                                       {"gpu_memset", KinetoRow::memset},
                                                                       {"Memset", KinetoRow::memset},
                                                                       {"cuda_sync", KinetoRow::sync},
                                                                       {"cuda_runtime", KinetoRow::launch},
                                                                       {"Runtime", KinetoRow::launch},
                                                                       {"cuda_driver", KinetoRow::launch},
                                                                       {"xpu_runtime", KinetoRow::launch},
                                                                       {"xpu_driver", KinetoRow::launch},
                                                                       {"privateuse1_runtime", KinetoRow::launch},
                                                                       {"privateuse1_driver", KinetoRow::launch},
                                                                       {"user_annotation", KinetoRow::annotation}};
  if (event.phase != "X") return KinetoRow::ignored;
  const auto found = rows.find(event.category);
  if (found != rows.end()) return found->second;
  // In a trace with stacks, these are the calls that tell what the work belongs to.
  if (event.category == "python_function" && pipeline_range_of(event.name)) return KinetoRow::annotation;
  return event.category == "Operator" && event.name.starts_with(kStepName) ? KinetoRow::annotation : KinetoRow::ignored;
}

std::pair<std::int64_t, std::int64_t> copy_ends(const ChromeEvent& event, std::int64_t device) {
  if (event[ChromeArg::from_device] && event[ChromeArg::to_device]) return {*event[ChromeArg::from_device], *event[ChromeArg::to_device]};
  const bool from_host = contains_any(event.name, {"HtoD", "HTOD", "H2D", "Host-to-Device"});
  const bool to_host = contains_any(event.name, {"DtoH", "DTOH", "D2H", "Device-to-Host"});
  return {from_host ? -1 : device, to_host ? -1 : device};
}

std::int64_t stream_of(const ChromeEvent& event) {
  if (event[ChromeArg::stream]) return *event[ChromeArg::stream];
  constexpr std::string_view kThread = "stream ";
  const std::string_view thread = event.thread;
  return integer(thread.starts_with(kThread) ? thread.substr(kThread.size()) : thread).value_or(0);
}

bool is_unified_copy(const ChromeEvent& event) {
  return contains_any(event.name, {"Unified", "UVM"});
}

bool launches_kernels(std::string_view call) {
  return contains_any(call, {"LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch"});
}

std::string what_of(const ChromeEvent& event) {
  switch (kineto_row(event)) {
    case KinetoRow::kernel:
      return "kernel '" + event.name + "'";
    case KinetoRow::launch:
      return "call '" + event.name + "'";
    default:
      return "'" + event.name + "'";
  }
}

std::string times_of(const ChromeEvent& event) {
  if (!event.out_of_range.empty()) return event.out_of_range + " [us]";
  return kineto_times(event.time.value_or(Nanoseconds{0}), event.duration.value_or(Nanoseconds{0}));
}

std::string kineto_times(Nanoseconds start, Nanoseconds duration) {
  return "ts " + microseconds(start) + ", dur " + microseconds(duration) + " [us]";
}

}  // namespace mptune::profiler
