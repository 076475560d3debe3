#include "planner/schedule/arrivals.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {

Arrivals::Arrivals(const Layout& layout, const ScheduleCosts& costs)
    : layout_(layout),
      costs_(costs),
      forward_(as_index(layout.stages())),
      backward_(forward_.size()),
      outputs_read_(forward_.size(), 0),
      gradients_read_(forward_.size(), 0) {
  for (const LinkCosts& link : costs.links) add_link(link);
  for (int s = 1; costs.links.empty() && s < layout.stages(); ++s)
    add_link({s - 1, s, costs.stages[as_index(s) - 1].send_output_ns, costs.stages[as_index(s)].send_gradient_ns, true});
  clear();
}

void Arrivals::add_link(const LinkCosts& link) {
  const auto front = as_index(link.front), back = as_index(link.back);
  forward_[front].to.push_back(link.back);
  forward_[front].copy_ns.push_back(link.output_ns);
  ++outputs_read_[back];
  if (!link.needs_gradient) return;
  backward_[back].to.push_back(link.front);
  backward_[back].copy_ns.push_back(link.gradient_ns);
  ++gradients_read_[front];
}

void Arrivals::clear() {
  const auto devices = as_index(layout_.devices());
  link_free_.assign(devices * devices, 0);
  outputs_.resize(layout_.slot(layout_.stages(), 0));
  gradients_.resize(outputs_.size());
  for (int s = 0; s < layout_.stages(); ++s)
    for (int i = 0; i < layout_.microbatches(); ++i) {
      outputs_[layout_.slot(s, i)] = {outputs_read_[as_index(s)], 0};
      gradients_[layout_.slot(s, i)] = {gradients_read_[as_index(s)], 0};
    }
}

const std::vector<int>& Arrivals::readers(const Action& action) const {
  static const std::vector<int> kNone;
  if (action.kind == ActionKind::backward_weight) return kNone;
  return (action.kind == ActionKind::forward ? forward_ : backward_)[as_index(action.stage)].to;
}

void Arrivals::send(const Action& action, std::int64_t end_ns) {
  if (action.kind == ActionKind::backward_weight) return;
  const bool forward = action.kind == ActionKind::forward;
  const Sends& sends = (forward ? forward_ : backward_)[as_index(action.stage)];
  const auto source = as_index(layout_.device_of(action.stage, action.microbatch));
  for (std::size_t k = 0; k < sends.to.size(); ++k) {
    const int to = sends.to[k];
    const auto destination = as_index(layout_.device_of(to, action.microbatch));
    std::int64_t there = end_ns;
    if (source != destination) {
      std::int64_t& link = link_free_[source * as_index(layout_.devices()) + destination];
      there = link = std::max(link, end_ns) + sends.copy_ns[k];
    }
    const std::int64_t early = forward ? 0 : costs_.stages[as_index(to)].recompute_ns;
    Input& input = (forward ? outputs_ : gradients_)[layout_.slot(to, action.microbatch)];
    --input.missing;
    input.last_ns = std::max(input.last_ns, there - early);
  }
}

}  // namespace mptune::planner
