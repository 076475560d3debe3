#include "planner/simulate/step_end.h"

#include "planner/cost/all_reduce.h"
#include "planner/cost/replica_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

template <typename SecondsOf>
std::int64_t sum_of_layers(const Stage& stage, const SecondsOf& seconds_of) {
  std::int64_t ns = 0;
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) ns += to_ns(seconds_of(layer));
  return ns;
}

class StepEnd {
 public:
  StepEnd(const Plan& plan, const CostModel& cost, const std::vector<int>& devices, Operations& operations)
      : plan_(plan), cost_(cost), devices_(devices), operations_(operations) {
    if (!cost.profile().network.empty()) groups_ = replica_groups(plan, cost.profile().network, devices);
  }

  void add() {
    for (int s = 0; s < plan_.num_stages(); ++s) list_reduction(s);
    for (int s = 0; s < plan_.num_stages(); ++s) list_updates(s);
  }

 private:
  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }

  void list_reduction(int s) {
    const std::vector<int>& devices = stage(s).devices;
    const int replicas = static_cast<int>(devices.size());
    if (replicas < 2) return;
    if (!groups_.empty()) return list_all_reduce(s);
    const std::vector<int> of_profile = replicas_in_profile(s);
    const std::int64_t bytes = cost_.parameters_bytes(stage(s).first_layer, stage(s).last_layer);
    const std::int64_t messages = to_ns(replica_messages_seconds(cost_, of_profile, bytes));
    const std::vector<int> summing = summing_replicas(cost_, of_profile);
    for (const int r : summing) {
      const auto seconds = [&](int layer) {
        return reduce_seconds(cost_, of_profile[as_index(r)], layer, replicas, static_cast<int>(summing.size())) +
               replica_copies_seconds(cost_, of_profile, layer);
      };
      add_end(EventKind::reduce, Phase::reduce, s, devices[as_index(r)], messages + sum_of_layers(stage(s), seconds));
    }
  }

  [[nodiscard]] std::vector<int> replicas_in_profile(int s) const {
    std::vector<int> of_profile;
    for (const int device : stage(s).devices) of_profile.push_back(devices_[as_index(device)]);
    return of_profile;
  }

  void list_all_reduce(int s) {
    const std::int64_t bytes = cost_.parameters_bytes(stage(s).first_layer, stage(s).last_layer);
    const std::int64_t ns = to_ns(all_reduce_costs(groups_[as_index(s)], bytes).least_s());
    for (const int device : stage(s).devices) add_end(EventKind::reduce, Phase::reduce, s, device, ns);
  }

  void list_updates(int s) {
    for (const int r : updating_replicas(cost_, replicas_in_profile(s))) {
      const int device = stage(s).devices[as_index(r)];
      add_end(EventKind::optimizer, Phase::optimizer, s, device,
              sum_of_layers(stage(s), [&](int layer) { return cost_.optimizer_seconds(devices_[as_index(device)], layer); }));
    }
  }

  void add_end(EventKind kind, Phase phase, int s, int device, std::int64_t ns) {
    Operation operation;
    operation.kind = kind;
    operation.phase = phase;
    operation.device = device;
    operation.lane = device;
    operation.stage = s;
    operation.alone_ns = ns;
    operations_.list.push_back(operation);
  }

  const Plan& plan_;
  const CostModel& cost_;
  const std::vector<int>& devices_;   // indices in the profile
  std::vector<ReplicaGroup> groups_;  // per stage; empty: the runtime's sum in order
  Operations& operations_;
};

}  // namespace

void add_step_end(const Plan& plan, const CostModel& cost, const std::vector<int>& devices, Operations& operations) {
  StepEnd(plan, cost, devices, operations).add();
}

}  // namespace mptune::planner
