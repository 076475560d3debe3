#include "tuner/runtime/plan_file_of.h"

#include <torch/version.h>

#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune {

PlanFile plan_file_of(const Model& model, const Plan& plan, std::chrono::system_clock::time_point created) {
  PlanFile file;
  file.plan = plan;
  for (const Stage& stage : plan.stages) {
    auto& modules = file.modules.emplace_back();
    for (int i = stage.first_layer; i < stage.last_layer; ++i) {
      const auto& paths = model.layers().at(as_index(i)).modules;
      modules.insert(modules.end(), paths.begin(), paths.end());
    }
  }
  file.fingerprint = {model.fingerprint(), model.input_text(), plan.devices, TORCH_VERSION, ""};
  file.created = utc_text(created);
  return file;
}

}  // namespace mptune
