#include "profiler/trace/values/trace.h"

#include <charconv>
#include <string_view>

#include "profiler/base/device_spec.h"

namespace mptune {
namespace {

constexpr std::string_view kRankOfThread = "rank ";

}  // namespace

const char* to_string(EventKind kind) {
  switch (kind) {
    case EventKind::forward:
      return "forward";
    case EventKind::backward:
      return "backward";
    case EventKind::backward_input:
      return "backward_input";
    case EventKind::backward_weight:
      return "backward_weight";
    case EventKind::recompute:
      return "recompute";
    case EventKind::optimizer:
      return "optimizer";
    case EventKind::reduce:
      return "reduce";
    case EventKind::copy:
      return "copy";
    case EventKind::collective:
      return "collective";
    case EventKind::memset:
      return "memset";
    case EventKind::sync:
      return "sync";
    case EventKind::host:
      return "host";
    case EventKind::action:
      return "action";
    case EventKind::step:
      return "step";
    case EventKind::kernel:
      return "kernel";
    case EventKind::profiler:
      return "profiler";
  }
  return "unknown";
}

bool is_device_work(EventKind kind) {
  return is_compute(kind) || kind == EventKind::copy;
}

bool is_compute(EventKind kind) {
  return kind <= EventKind::reduce || kind == EventKind::collective || kind == EventKind::memset || kind == EventKind::kernel;
}

bool is_whole_graph(const Trace& trace, const Event& event) {
  return event.kind == EventKind::kernel && event.detail < 0 && trace.names.at(static_cast<std::size_t>(event.name)) == kWholeGraphName;
}

bool is_launched(const Trace& trace, const Event& event) {
  if (event.kind != EventKind::copy) return is_compute(event.kind);
  return event.detail < 0 || !trace.copies.at(static_cast<std::size_t>(event.detail)).unified;
}

std::string thread_of_rank(int rank, const std::string& thread) {
  return std::string(kRankOfThread) + std::to_string(rank) + ", " + thread;
}

int rank_of_thread(const std::string& name) {
  if (!name.starts_with(kRankOfThread)) return 0;
  const char* number = name.c_str() + kRankOfThread.size();
  int rank = 0;
  const auto [end, error] = std::from_chars(number, name.c_str() + name.size(), rank);
  return error == std::errc() && rank >= 0 && rank < DeviceSpec::kMostRanks && std::string_view(end).starts_with(", ") ? rank : 0;
}

bool names_gradients(const std::string& copy) {
  return copy == kGradientCopyName || copy == kBackwardCopyName;
}

}  // namespace mptune
