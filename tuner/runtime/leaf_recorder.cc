#include "mptune/tuner/runtime/leaf_recorder.h"

namespace mptune {

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
  last_ = SteadyClock::now();
}

void LeafRecorder::leaf(What what, int layer) {
  const auto now = SteadyClock::now();
  const auto& names = what == What::forward ? forward_names_ : what == What::recompute ? recompute_names_ : backward_names_;
  const auto index = static_cast<std::size_t>(layer - first_layer_);
  Tag tag = tag_;
  // The loss is no layer of the model.
  tag.layer = index + 1 < names.size() ? layer : -1;
  log_.add(what, names[index], tag, last_, now);
  last_ = now;
}

void LeafRecorder::leaf(What what, const char* name, const Tag& tag, SteadyClock::time_point start) {
  log_.add(what, collector_.name(name), tag, start, SteadyClock::now());
}

void LeafRecorder::range(const char* name, const Tag& tag, SteadyClock::time_point start) {
  log_.add_range(What::action, collector_.name(name), tag, start, SteadyClock::now());
}

}  // namespace mptune
