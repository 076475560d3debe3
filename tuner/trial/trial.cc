#include "tuner/trial/trial.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"

namespace mptune::tuner {
namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

std::string out_of_memory_text(const OutOfMemory& outcome) {
  std::string text = "out of memory";
  if (!outcome.device.empty()) text += " on " + outcome.device;
  if (outcome.requested_bytes > 0) text += ": " + format_bytes(outcome.requested_bytes) + " asked";
  if (outcome.requested_bytes > 0 && outcome.cap_bytes > 0) text += " with a cap of " + format_bytes(outcome.cap_bytes);
  return text;
}

std::string measured_text(const Measured& outcome) {
  if (outcome.step_s.empty()) return "measured without a sample";
  return "measured: " + format_seconds(median(outcome.step_s)) + " a step, " + std::to_string(outcome.step_s.size()) + " samples";
}

std::string timed_out_text(const TimedOut& outcome) {
  if (outcome.doing.empty()) return "timed out: a step took more than " + format_seconds(outcome.limit_s);
  return "timed out: " + outcome.doing + " took more than " + format_seconds(outcome.limit_s);
}

std::string crashed_text(const Crashed& outcome) {
  const std::string during = outcome.doing.empty() ? "" : " in " + outcome.doing;
  if (was_killed(outcome)) return "killed (signal 9), by another program or for lack of memory" + during;
  if (outcome.signal != 0) return "crashed by signal " + std::to_string(outcome.signal) + during;
  return "crashed with exit code " + std::to_string(outcome.exit_code) + during;
}

std::string with_reason(const std::string& text, const std::string& reason) {
  return reason.empty() ? text : text + ": " + reason;
}

template <std::size_t... I>
std::optional<Outcome> outcome_at(const std::string& name, std::index_sequence<I...> /*all*/) {
  std::optional<Outcome> found;
  ((name == kOutcomeNames[I] ? void(found.emplace(std::in_place_index<I>)) : void()), ...);
  return found;
}

}  // namespace

bool was_killed(const Outcome& outcome) {
  const auto* crashed = std::get_if<Crashed>(&outcome);
  return crashed != nullptr && crashed->signal == SIGKILL;
}

std::string outcome_class(const Outcome& outcome) {
  return kOutcomeNames[outcome.index()];
}

std::optional<Outcome> outcome_named(const std::string& name) {
  return outcome_at(name, std::make_index_sequence<kOutcomeNames.size()>());
}

std::string outcome_text(const Outcome& outcome) {
  return std::visit(Match{
                        [](const Measured& o) { return measured_text(o); },
                        [](const OutOfMemory& o) { return out_of_memory_text(o); },
                        [](const TimedOut& o) { return timed_out_text(o); },
                        [](const Crashed& o) { return crashed_text(o); },
                        [](const WrongResult& o) { return with_reason("wrong result", o.reason); },
                        [](const NonFinite&) { return std::string("the loss is not finite"); },
                        [](const Infeasible& o) { return with_reason("infeasible", o.reason); },
                        [](const Interrupted&) { return std::string("interrupted"); },
                        [](const Environment& o) { return with_reason("the machine failed", o.reason); },
                    },
                    outcome);
}

std::vector<std::int64_t> peak_bytes_of(const Trial& trial) {
  const auto* measured = std::get_if<Measured>(&trial.outcome);
  if (measured == nullptr) return {};
  std::vector<std::int64_t> peaks = measured->peak_bytes;
  for (std::size_t d = 0; d < peaks.size() && d < trial.plan.devices.size(); ++d) {
    if (device_kind(trial.plan.devices[d]) != DeviceSpec::Kind::sleep || !trial.prediction || d >= trial.prediction->peak_bytes.size())
      continue;
    peaks[d] = trial.prediction->peak_bytes[d];
  }
  return peaks;
}

int entry_at(int round, int position, int count) {
  return round % 2 == 0 ? position : count - 1 - position;
}

int rounds_wanted(const Series& series, int disturbed) {
  return series.rounds + std::min(disturbed, series.rounds);
}

bool round_fits(const Series& series, int round, double now_s, double longest_round_s, int disturbed) {
  return round < rounds_wanted(series, disturbed) && (round == 0 || now_s + longest_round_s <= series.budget_s);
}

}  // namespace mptune::tuner
