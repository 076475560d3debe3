#include "tuner/worker/program/round_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "profiler/base/device_spec.h"

namespace mptune::tuner {

std::vector<int> cores_of(const Series& series) {
  std::set<int> cores;
  for (const Series::Entry& entry : series.entries) {
    for (const std::string& device : entry.plan.devices)
      if (device_kind(device) == DeviceSpec::Kind::cpu) {
        const DeviceSpec spec = parse_device(device);
        if (spec.rank == 0) cores.insert(spec.cores.begin(), spec.cores.end());
      }
  }
  return {cores.begin(), cores.end()};
}

RoundWatch::RoundWatch(std::vector<int> cores) : cores_(std::move(cores)), usual_probe_s_(cores_.empty() ? 0 : clock_probe_s()) {
  if (!cores_.empty()) before_ = machine_use(cores_);
}

std::optional<DisturbedRounds> RoundWatch::after_round(int round) {
  if (!before_) return std::nullopt;
  const std::optional<MachineUse> now = machine_use(cores_);
  if (!now || now->wall_s - before_->wall_s < kLeastJudged) return std::nullopt;
  const double probe_s = clock_probe_s();
  const std::optional<Disturbance> disturbance = judge_use(*before_, *now, static_cast<int>(cores_.size()), probe_s, usual_probe_s_);
  const int first = std::exchange(first_, round + 1);
  usual_probe_s_ = std::min(usual_probe_s_, probe_s);
  before_ = machine_use(cores_);  // read again: the probe is not part of the next rounds
  if (!disturbance) return std::nullopt;
  return DisturbedRounds{.first = first, .last = round, .disturbance = *disturbance};
}

}  // namespace mptune::tuner
