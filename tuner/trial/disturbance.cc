#include "tuner/trial/disturbance.h"

#include <algorithm>
#include <utility>

#include "tuner/trial/trial.h"

namespace mptune::tuner {
namespace {

constexpr double kMostOfOthers = 0.05;
constexpr double kMostStolen = 0.02;
constexpr double kMostClockLoss = 0.10;
constexpr double kTick = 0.01;
// A core's time may be wrong by a tick at each end.
constexpr double kTicksOff = 2;

const DisturbedRounds* disturbance_of(const std::vector<DisturbedRounds>& disturbed, int round) {
  const auto found =
      std::ranges::find_if(disturbed, [&](const DisturbedRounds& rounds) { return rounds.first <= round && round <= rounds.last; });
  return found == disturbed.end() ? nullptr : &*found;
}

void take_worse(std::optional<Disturbance>& worst, const Disturbance& other) {
  if (!worst || other.share > worst->share) worst = other;
}

void leave_out_disturbed(Measured& measured, const std::vector<DisturbedRounds>& disturbed, int enough) {
  Samples calm;
  Noise noise;
  for (const Sample& sample : measured.step_s.values) {
    if (const DisturbedRounds* rounds = disturbance_of(disturbed, sample.round))
      take_worse(noise.worst, rounds->disturbance);
    else
      calm.values.push_back(sample);
  }
  const int count = static_cast<int>(measured.step_s.size() - calm.size());
  if (static_cast<int>(calm.size()) >= enough) {
    noise.left_out = count;
    measured.step_s = std::move(calm);
  } else {
    noise.kept = count;
  }
  measured.noise = noise;
}

}  // namespace

std::optional<Disturbance> judge_use(const MachineUse& before, const MachineUse& after, int cores, double probe_s, double usual_probe_s) {
  const double available_s = cores * (after.wall_s - before.wall_s);
  if (available_s <= 0) return std::nullopt;
  const double certain_s = kTicksOff * kTick * cores;
  const double others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s) - certain_s;
  const double stolen_s = after.stolen_s - before.stolen_s - kTick * cores;
  const double clock_loss = probe_s > 0 && usual_probe_s > 0 ? 1 - usual_probe_s / probe_s : 0;
  struct Seen {
    Disturbance disturbance;
    double most = 0;
    [[nodiscard]] double times() const { return disturbance.share / most; }
  };
  const std::array seen{Seen{{DisturbedBy::other_programs, std::clamp(others_s / available_s, 0.0, 1.0)}, kMostOfOthers},
                        Seen{{DisturbedBy::other_machines, std::clamp(stolen_s / available_s, 0.0, 1.0)}, kMostStolen},
                        Seen{{DisturbedBy::slow_clock, std::clamp(clock_loss, 0.0, 1.0)}, kMostClockLoss}};
  const Seen& worst = *std::ranges::max_element(seen, {}, &Seen::times);
  return worst.times() > 1 ? std::optional(worst.disturbance) : std::nullopt;
}

void leave_out_disturbed(std::vector<Trial>& trials, const std::vector<DisturbedRounds>& disturbed, int enough) {
  if (disturbed.empty()) return;
  for (Trial& trial : trials)
    if (auto* measured = std::get_if<Measured>(&trial.outcome)) leave_out_disturbed(*measured, disturbed, enough);
}

}  // namespace mptune::tuner
