#include "profiler/trace/trace.h"

namespace mptune {

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

bool is_compute(EventKind kind) {
  return kind <= EventKind::reduce || kind == EventKind::collective || kind == EventKind::memset || kind == EventKind::kernel;
}

bool is_launched(const Trace& trace, const Event& event) {
  if (event.kind != EventKind::copy) return is_compute(event.kind);
  return event.detail < 0 || !trace.copies.at(static_cast<std::size_t>(event.detail)).unified;
}

bool names_gradients(const std::string& copy) {
  return copy == kGradientCopyName || copy == kBackwardCopyName;
}

}  // namespace mptune
