#include "reports/render/search_text.h"

#include <fmt/format.h>

#include <cmath>

#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

// A share less than this would be printed as 0.0 %.
constexpr double kSameShare = 0.0005;

std::string slower_or_faster(double time_ratio) {
  return std::abs(time_ratio - 1) < kSameShare ? "as fast" : compared_time(time_ratio, 1);
}

std::string slower_by_bound(double time_ratio) {
  if (time_ratio - 1 < kSameShare) return "slower: its lower bound lies above the best plan";
  return "at least " + compared_time(time_ratio, 1) + " by its lower bound";
}

/// Returns "bn1", or "bn1 and 3 more layers". A number names a layer of nn.Sequential: "layer 1".
std::string first_and_others(const std::vector<std::string>& layers) {
  const std::size_t others = layers.size() - 1;
  const std::string first = (integer(layers.front()) ? "layer " : "") + layers.front();
  if (others == 0) return first;
  return fmt::format("{} and {} more layer{}", first, others, others == 1 ? "" : "s");
}

}  // namespace

std::string text_of(RejectedAs reason) {
  switch (reason) {
    case RejectedAs::too_large:
      return "needs more memory than a device has";
    case RejectedAs::too_slow:
      return "slower than the listed plans, by their lower bounds or simulated";
    case RejectedAs::unproved:
      return "not covered by the proof: no lower bound is known where memory caps change the schedule, copies queue or a model branches";
    case RejectedAs::not_reached:
      return "not reached within the limit of the search: a faster one may be among them";
    case RejectedAs::rows_decide:
      break;
  }
  return "not covered by the proof: a list schedule may use split backward, which can't run; only generating it tells";
}

std::string text_of(const PipelineChoice& choice) {
  switch (choice.kind) {
    case PipelineChoice::Kind::stages_per_device:
      return fmt::format("{} stages on each device", choice.number);
    case PipelineChoice::Kind::stages:
      return fmt::format("{} stages, one device each", choice.number);
    case PipelineChoice::Kind::microbatches:
      return fmt::format("m = {}", choice.number);
    case PipelineChoice::Kind::schedule:
      return "schedule " + choice.schedule;
    case PipelineChoice::Kind::replicas:
      break;
  }
  return "stages with replicas";
}

std::string text_of(const RejectedClass& rejected) {
  using Why = RejectedClass::Why;
  const auto at_its_best = [&] { return slower_or_faster(rejected.time_ratio) + " at its best"; };
  switch (rejected.why) {
    case Why::not_executable:
    case Why::rows_decide: {
      const std::string why = rejected.missing ? text_of(*rejected.missing) : text_of(RejectedAs::rows_decide);
      return why + (rejected.time_ratio > 0 ? ", " + at_its_best() : "");
    }
    case Why::too_large:
      return text_of(RejectedAs::too_large);
    case Why::slower_by_bound:
      return slower_by_bound(rejected.time_ratio);
    case Why::seen:
      return at_its_best();
    case Why::seen_and_proved:
      return at_its_best() + "; none is faster";
    case Why::none_faster:
      return "none is faster";
    case Why::only_as_chain:
      return "none is faster as a chain; not proved for branches";
    case Why::not_reached:
      break;
  }
  return "not reached within the limit of the search";
}

std::string text_of(const StagesPerDevice& stages) {
  using End = StagesPerDevice::End;
  if (stages.searched == 0) return "";
  const int most = stages.searched;
  const std::string numbers = most == 1 ? "1" : fmt::format("1 to {}", most);
  if (stages.end == End::all) return fmt::format("{} stage{} per device searched: all that fit the layers", numbers, most == 1 ? "" : "s");
  const std::string text = fmt::format("{} of at most {} stages per device searched: ", numbers, stages.possible);
  if (stages.end == End::slower) return text + "more are slower by their lower bounds";
  if (stages.end == End::nothing_faster) return text + fmt::format("{} and {} had nothing faster", most - 1, most);
  return text + "more were not reached within the limit of the search";
}

std::string text_of(const tuner::Refit& refit) {
  return fmt::format(
      "the simulator's error: {:.1f} % before the trials, {:.1f} % fitted to {} of them (computing {:.2f}x, actions {:.2f}x, copies "
      "{:.2f}x)",
      100 * refit.error_before, 100 * refit.error_after, refit.trials, refit.factors.compute, refit.factors.action, refit.factors.copy);
}

std::string text_of(const planner::ChangedNumerics& changed) {
  std::vector<std::string> parts;
  if (const auto& norms = changed.norms; !norms.empty())
    parts.push_back(fmt::format("{} normalise{} over {} sample{}, not over {}", first_and_others(norms), norms.size() == 1 ? "s" : "",
                                changed.samples, changed.samples == 1 ? "" : "s", changed.batch));
  if (const auto& writers = changed.writers; !writers.empty())
    parts.push_back(
        fmt::format("{} write{} buffers {} times a step", first_and_others(writers), writers.size() == 1 ? "s" : "", changed.microbatches));
  return "training is not that of one device: " + join(parts, ", ") + "; --keep-numerics keeps to plans that train alike";
}

}  // namespace mptune::reports
