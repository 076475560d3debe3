#include "tuner/runtime/stage/leaf_recorder.h"

#include "profiler/base/index.h"

namespace mptune::tuner {

LeafRecorder::LeafRecorder(HostCollector& collector, LaneLog& log, int first_layer, const std::vector<std::string>& layers)
    : collector_(&collector), log_(&log), first_layer_(first_layer) {
  auto names = layers;
  names.emplace_back("loss");
  const auto add = [&](EventKind kind, const std::string& prefix) {
    for (const std::string& name : names) names_[kind].push_back(collector.name(prefix + name));
  };
  add(EventKind::forward, "forward ");
  add(EventKind::backward, "backward ");
  add(EventKind::backward_input, "input gradient ");
  add(EventKind::backward_weight, "weight gradient ");
  add(EventKind::recompute, "recompute ");
}

void LeafRecorder::begin(const Tag& tag) {
  if (!records()) return;
  tag_ = tag;
  last_ = profiler::SteadyClock::now();
}

void LeafRecorder::leaf(EventKind kind, int layer) {
  if (!records()) return;
  const auto now = profiler::SteadyClock::now();
  const std::vector<int>& names = names_.at(kind);
  const auto index = as_index(layer - first_layer_);
  Tag tag = tag_;
  // The loss is no layer of the model.
  tag.layer = index + 1 < names.size() ? layer : -1;
  log_->add(kind, names[index], tag, last_, now);
  last_ = now;
}

void LeafRecorder::leaf(EventKind kind, const char* name, const Tag& tag, profiler::SteadyClock::time_point start) {
  if (records()) log_->add(kind, collector_->name(name), tag, start, profiler::SteadyClock::now());
}

void LeafRecorder::weights_elsewhere(LaneLog& log, int layer, const Tag& tag, int further, profiler::SteadyClock::time_point start) const {
  if (!records()) return;
  Tag with_layer = tag;
  with_layer.layer = layer;
  const int name = names_.at(EventKind::backward_weight)[as_index(layer - first_layer_)];
  log.add(EventKind::backward_weight, name, with_layer, start, profiler::SteadyClock::now(), further);
}

void LeafRecorder::range(const char* name, const Tag& tag, profiler::SteadyClock::time_point start) {
  if (records()) log_->add_range(EventKind::action, collector_->name(name), tag, start, profiler::SteadyClock::now());
}

}  // namespace mptune::tuner
