#include "profiler/base/rate_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "profiler/base/choice_text.h"
#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"

namespace mptune {
namespace {

constexpr const char* kRateOption = "--lr-schedule";
constexpr double kMostWarmupSteps = 1e9;

double number_in(const std::string& text, const ChoicePart& part, double most) {
  double number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(number >= 0 && number <= most))
    throw Error("'" + part.text + "' has no value that fits", kRateOption, "write cosine:warmup=100:end=0.1 or cosine:warmup=5%");
  return number;
}

void set_warmup(RateSchedule& schedule, const ChoicePart& part) {
  schedule.warmup_steps = 0;
  schedule.warmup_share = 0;
  if (part.value.ends_with('%')) {
    schedule.warmup_share = number_in(part.value.substr(0, part.value.size() - 1), part, 99) / 100;
    return;
  }
  const double steps = number_in(part.value, part, kMostWarmupSteps);
  if (steps != std::floor(steps))
    throw Error("'" + part.text + "' is not a number of steps", kRateOption, "give a whole number, or a share such as 5%");
  schedule.warmup_steps = static_cast<std::int64_t>(steps);
}

void set_part(RateSchedule& schedule, const ChoicePart& part) {
  if (part.name == "warmup") return set_warmup(schedule, part);
  if (part.name == "end" && schedule.decay == RateDecay::constant)
    throw Error("a constant rate ends where it begins", kRateOption, "leave end out, or use linear or cosine");
  if (part.name == "end") return (void)(schedule.end = number_in(part.value, part, 1));
  throw Error("a schedule has no '" + part.name + "'", kRateOption,
              did_you_mean(part.name, {"warmup", "end"}, "use warmup=N, warmup=N% or end=X"));
}

std::int64_t warmup_of(const RateSchedule& schedule, std::int64_t steps) {
  if (schedule.warmup_share > 0) return std::llround(schedule.warmup_share * static_cast<double>(steps));
  return schedule.warmup_steps;
}

}  // namespace

double rate_factor(const RateSchedule& schedule, std::int64_t step, std::int64_t steps) {
  const std::int64_t warmup = warmup_of(schedule, steps);
  if (warmup > 0 && warmup >= steps)
    throw Error("the warm-up of " + std::to_string(warmup) + " steps takes the whole training of " + std::to_string(steps), kRateOption,
                "give a shorter warm-up or more steps");
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double over = static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
  if (schedule.decay == RateDecay::linear) return 1 - (1 - schedule.end) * over;
  if (schedule.decay == RateDecay::cosine) return schedule.end + (1 - schedule.end) * (1 + std::cos(std::numbers::pi * over)) / 2;
  return 1;
}

RateSchedule parse_rate_schedule(const std::string& text) {
  const auto [name, parts] = split_choice(text);
  const auto found = std::ranges::find(kRateDecayNames, name);
  if (found == kRateDecayNames.end())
    throw Error("unknown schedule '" + name + "' of the learning rate", kRateOption,
                did_you_mean(name, {kRateDecayNames.begin(), kRateDecayNames.end()}, "use constant, linear or cosine"));
  RateSchedule schedule;
  schedule.decay = static_cast<RateDecay>(found - kRateDecayNames.begin());
  for (const ChoicePart& part : parts) set_part(schedule, part);
  return schedule;
}

}  // namespace mptune
