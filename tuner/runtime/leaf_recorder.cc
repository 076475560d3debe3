#include "tuner/runtime/leaf_recorder.h"

#include "profiler/base/index.h"

namespace mptune::tuner {

LeafRecorder::LeafRecorder(HostCollector& collector, LaneLog& log, int first_layer, const std::vector<std::string>& layers)
    : collector_(collector), log_(log), first_layer_(first_layer) {
  auto names = layers;
  names.emplace_back("loss");
  for (const std::string& name : names) {
    forward_names_.push_back(collector.name("forward " + name));
    backward_names_.push_back(collector.name("backward " + name));
    recompute_names_.push_back(collector.name("recompute " + name));
  }
}

void LeafRecorder::begin(const Tag& tag) {
  tag_ = tag;
  last_ = profiler::SteadyClock::now();
}

void LeafRecorder::leaf(EventKind kind, int layer) {
  const auto now = profiler::SteadyClock::now();
  const auto& names = kind == EventKind::forward ? forward_names_ : kind == EventKind::recompute ? recompute_names_ : backward_names_;
  const auto index = as_index(layer - first_layer_);
  Tag tag = tag_;
  // The loss is no layer of the model.
  tag.layer = index + 1 < names.size() ? layer : -1;
  log_.add(kind, names[index], tag, last_, now);
  last_ = now;
}

void LeafRecorder::leaf(EventKind kind, const char* name, const Tag& tag, profiler::SteadyClock::time_point start) {
  log_.add(kind, collector_.name(name), tag, start, profiler::SteadyClock::now());
}

void LeafRecorder::range(const char* name, const Tag& tag, profiler::SteadyClock::time_point start) {
  log_.add_range(EventKind::action, collector_.name(name), tag, start, profiler::SteadyClock::now());
}

}  // namespace mptune::tuner
