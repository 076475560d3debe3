#include "reports/values/plain_pytorch.h"

#include "planner/plan/threads.h"
#include "profiler/base/device_spec.h"

namespace mptune::reports {
namespace {

bool takes_settings_alone(const Plan& plan) {
  if (plan.num_stages() != 1 || plan.devices.size() != 1 || plan.num_microbatches() != 1) return false;
  const Stage& stage = plan.stages.front();
  return stage.devices.size() == 1 && stage.recompute.mode == Recompute::Mode::none && !stage.offload && !plan.options.replace_slow_kernels;
}

}  // namespace

std::vector<std::string> plain_pytorch(const Plan& plan) {
  const auto device = takes_settings_alone(plan) ? find_device(plan.devices.front()) : std::nullopt;
  if (!device || device->kind == DeviceSpec::Kind::sleep || device->parts > 1 || names_rank(device->name)) return {};
  const bool cpu = device->kind == DeviceSpec::Kind::cpu;
  std::vector<std::string> lines;
  if (cpu)
    lines.push_back("torch.set_num_threads(" + std::to_string(planner::threads_of(plan, 0)) + ")");
  else
    lines.push_back("model = model.to(\"" + device->name + "\")");
  if (plan.options.memory_format == MemoryFormat::channels_last) {
    lines.emplace_back("model = model.to(memory_format=torch.channels_last)");
    lines.emplace_back("images = images.to(memory_format=torch.channels_last)");
  }
  if (plan.options.precision != Precision::float32)
    lines.push_back(std::string("with torch.autocast(\"") + (cpu ? "cpu" : "cuda") + "\", dtype=torch." +
                    (plan.options.precision == Precision::bf16 ? "bfloat16" : "float16") + "):  # around forward and loss");
  return lines;
}

}  // namespace mptune::reports
