#include "planner/cost/stage_flows.h"

#include <map>
#include <utility>

#include "planner/plan/senders.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::vector<StageFlow> chain_flows(const CostModel& cost, const std::vector<Stage>& stages) {
  std::vector<StageFlow> flows;
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const int back = static_cast<int>(s), cut = stages[s].first_layer;
    flows.push_back({back - 1, back, cost.tensors().boundary(cut, false), cost.tensors().boundary(cut, true), true});
  }
  return flows;
}

std::vector<int> stages_of_layers(const std::vector<Stage>& stages) {
  std::vector<int> of;
  for (std::size_t s = 0; s < stages.size(); ++s) of.resize(as_index(stages[s].last_layer), static_cast<int>(s));
  return of;
}

}  // namespace

void set_layers(Plan& plan, int s, int first, int last) {
  Stage& stage = plan.stages[as_index(s)];
  stage.first_layer = first;
  stage.last_layer = last;
  if (s + 1 < plan.num_stages()) plan.stages[as_index(s) + 1].first_layer = last;
}

std::vector<StageFlow> stage_flows(const CostModel& cost, const std::vector<Stage>& stages) {
  if (cost.is_chain()) return chain_flows(cost, stages);
  const std::vector<int> stage_of = stages_of_layers(stages);
  std::map<std::pair<int, int>, StageFlow> flows;  // by back and front stage
  std::vector<bool> gradient(stages.size());       // the stage returns a gradient for the tensor
  for (const ProfileTensor& tensor : cost.tensors().all()) {
    const int maker = stage_of[as_index(tensor.maker)];
    const std::vector<StageReader> readers = stage_readers(maker, tensor.readers, tensor.several, stage_of);
    const std::vector<int> from = senders(maker, readers);
    gradient.assign(stages.size(), false);
    for (const int layer : tensor.gradient_readers) gradient[as_index(stage_of[as_index(layer)])] = true;
    const TensorSize size{tensor.bytes_per_sample, tensor.fixed_bytes};
    for (std::size_t r = readers.size(); r-- > 0;) {
      const int front = from[r], back = readers[r].stage;
      StageFlow& flow = flows.try_emplace({back, front}, StageFlow{front, back, {}, {}, false}).first->second;
      flow.outputs += size;
      if (!gradient[as_index(back)]) continue;
      flow.gradients += size;
      flow.needs_gradient = gradient[as_index(front)] = true;
    }
  }
  std::vector<StageFlow> all;
  for (const auto& [ends, flow] : flows) all.push_back(flow);
  return all;
}

}  // namespace mptune::planner
