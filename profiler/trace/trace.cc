#include "mptune/profiler/trace/trace.h"

namespace mptune {

const char* to_string(What what) {
  switch (what) {
    case What::forward:
      return "forward";
    case What::backward:
      return "backward";
    case What::backward_input:
      return "backward_input";
    case What::backward_weight:
      return "backward_weight";
    case What::recompute:
      return "recompute";
    case What::optimizer:
      return "optimizer";
    case What::reduce:
      return "reduce";
    case What::copy:
      return "copy";
    case What::collective:
      return "collective";
    case What::memset:
      return "memset";
    case What::sync:
      return "sync";
    case What::host:
      return "host";
    case What::action:
      return "action";
    case What::step:
      return "step";
    case What::kernel:
      return "kernel";
    case What::profiler:
      return "profiler";
  }
  return "unknown";
}

bool is_compute(What what) {
  return what <= What::reduce || what == What::collective || what == What::memset || what == What::kernel;
}

bool names_gradients(const std::string& copy) {
  return copy == kGradientCopyName || copy == kBackwardCopyName;
}

}  // namespace mptune
