#include "tuner/runtime/stage_links.h"

#include <algorithm>
#include <map>

#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

class Linker {
 public:
  Linker(const profiler::ModelFlow& flow, const std::vector<Stage>& stages) : flow_(flow), stages_(stages) {}

  /// True if a layer of the stage reads the tensor, or the loss, which the last stage computes.
  [[nodiscard]] bool reads(const Stage& stage, const profiler::ModelTensor& tensor) const {
    const int end = stage.last_layer + (stage.last_layer == stages_.back().last_layer ? 1 : 0);
    return std::ranges::any_of(tensor.readers, [&](int reader) { return stage.first_layer <= reader && reader < end; });
  }

  [[nodiscard]] int stage_of(int layer) const {
    const auto found = std::ranges::find_if(stages_, [&](const Stage& stage) { return layer < stage.last_layer; });
    return static_cast<int>(found - stages_.begin());
  }

  /// Index of the tensor among what the stage returns.
  [[nodiscard]] int returned(int stage, int tensor) const {
    const std::vector<int>& returned = flow_.at(stages_[as_index(stage)].last_layer);
    return static_cast<int>(std::ranges::find(returned, tensor) - returned.begin());
  }

  /// Calls visit(place, tensor, description) for what the stage takes and reads.
  template <class Visit>
  void for_read(const Stage& stage, const Visit& visit) const {
    const std::vector<int>& taken = flow_.at(stage.first_layer);
    for (std::size_t place = 0; place < taken.size(); ++place) {
      const profiler::ModelTensor& tensor = flow_.tensors()[as_index(taken[place])];
      if (reads(stage, tensor)) visit(static_cast<int>(place), taken[place], tensor);
    }
  }

 private:
  const profiler::ModelFlow& flow_;
  const std::vector<Stage>& stages_;
};

}  // namespace

std::vector<StageLink> stage_links(const profiler::ModelFlow& flow, const std::vector<Stage>& stages) {
  const Linker linker(flow, stages);
  std::map<std::pair<int, int>, StageLink> links;
  for (std::size_t s = 1; s < stages.size(); ++s)
    linker.for_read(stages[s], [&](int place, int index, const profiler::ModelTensor& tensor) {
      if (tensor.maker < 0) return;
      const int back = static_cast<int>(s), front = linker.stage_of(tensor.maker);
      StageLink& link = links.try_emplace({front, back}, StageLink{front, back, false, {}}).first->second;
      if (tensor.output == profiler::ModelTensor::kAll)
        link.everything = true;
      else
        link.slots.emplace_back(linker.returned(front, index), place);
    });
  std::vector<StageLink> all;
  for (auto& [ends, link] : links) all.push_back(std::move(link));
  return all;
}

std::vector<StageTensors> stage_tensors(const profiler::ModelFlow& flow, const std::vector<Stage>& stages) {
  const Linker linker(flow, stages);
  const auto count = [&](int cut) { return flow.is_unknown(cut) ? 0 : static_cast<int>(flow.at(cut).size()); };
  std::vector<StageTensors> all;
  for (const Stage& stage : stages) {
    StageTensors& of = all.emplace_back();
    of.taken = count(stage.first_layer);
    of.returned = count(stage.last_layer);
    of.takes_batch = stage.first_layer == 0;
    if (of.takes_batch) continue;
    linker.for_read(stage, [&](int place, int, const profiler::ModelTensor& tensor) {
      if (tensor.maker < 0) of.batch.emplace_back(tensor.output, place);
    });
  }
  return all;
}

}  // namespace mptune::tuner
