#include "tuner/runtime/graph/stage_links.h"

#include <algorithm>
#include <map>

#include "planner/plan/senders.h"
#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

class Linker {
 public:
  Linker(const profiler::ModelFlow& flow, const std::vector<Stage>& stages) : flow_(flow), stages_(stages) {
    for (std::size_t s = 0; s < stages.size(); ++s) stage_of_.resize(as_index(stages[s].last_layer), static_cast<int>(s));
    stage_of_.push_back(static_cast<int>(stages.size()) - 1);  // the loss
    for (const profiler::ModelTensor& tensor : flow.tensors()) add_senders(tensor);
  }

  [[nodiscard]] bool reads(int stage, const profiler::ModelTensor& tensor) const {
    return std::ranges::any_of(tensor.readers, [&](int reader) { return stage_of_[as_index(reader)] == stage; });
  }

  /// Returns the stage that sends a tensor to `stage`, which reads it.
  [[nodiscard]] int sender(int tensor, int stage) const { return senders_[as_index(tensor)].at(stage); }

  /// Returns the index of the tensor among what the stage returns.
  [[nodiscard]] int returned(int stage, int tensor) const {
    const std::vector<int>& returned = flow_.at(stages_[as_index(stage)].last_layer);
    return static_cast<int>(std::ranges::find(returned, tensor) - returned.begin());
  }

  /// Calls visit(place, tensor, description) for what the stage takes and reads.
  template <class Visit>
  void for_read(int stage, const Visit& visit) const {
    const std::vector<int>& taken = flow_.at(stages_[as_index(stage)].first_layer);
    for (std::size_t place = 0; place < taken.size(); ++place) {
      const profiler::ModelTensor& tensor = flow_.tensors()[as_index(taken[place])];
      if (reads(stage, tensor)) visit(static_cast<int>(place), taken[place], tensor);
    }
  }

 private:
  void add_senders(const profiler::ModelTensor& tensor) {
    std::map<int, int>& by_reader = senders_.emplace_back();
    if (tensor.maker < 0) return;
    const int maker = stage_of_[as_index(tensor.maker)];
    const auto readers = planner::stage_readers(maker, tensor.readers, tensor.several, stage_of_);
    const std::vector<int> from = planner::senders(maker, readers);
    for (std::size_t r = 0; r < readers.size(); ++r) by_reader[readers[r].stage] = from[r];
  }

  const profiler::ModelFlow& flow_;
  const std::vector<Stage>& stages_;
  std::vector<int> stage_of_;                ///< by layer; the loss comes after the last layer
  std::vector<std::map<int, int>> senders_;  ///< by tensor and reading stage
};

}  // namespace

std::vector<StageLink> stage_links(const profiler::ModelFlow& flow, const std::vector<Stage>& stages) {
  const Linker linker(flow, stages);
  std::map<std::pair<int, int>, StageLink> links;
  for (int back = 1; back < static_cast<int>(stages.size()); ++back)
    linker.for_read(back, [&](int place, int index, const profiler::ModelTensor& tensor) {
      if (tensor.maker < 0) return;
      const int front = linker.sender(index, back);
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
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    const Stage& stage = stages[as_index(s)];
    StageTensors& of = all.emplace_back();
    of.taken = count(stage.first_layer);
    of.returned = count(stage.last_layer);
    of.takes_batch = stage.first_layer == 0;
    if (of.takes_batch) continue;
    linker.for_read(s, [&](int place, int, const profiler::ModelTensor& tensor) {
      if (tensor.maker < 0) of.batch.emplace_back(tensor.output, place);
    });
  }
  return all;
}

}  // namespace mptune::tuner
