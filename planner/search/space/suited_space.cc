#include "planner/search/space/suited_space.h"

#include <algorithm>

#include "planner/plan/plan_error.h"
#include "profiler/base/sample_range_text.h"
#include "profiler/trace/values/samples_taken.h"

namespace mptune::planner {
namespace {

void allow_no_replicas(SearchSpace& space, const std::string& why) {
  if (std::ranges::any_of(space.replicas, [](int count) { return count > 1; }))
    throw PlanError("replicas would change the training: " + why, "--replicas",
                    space.keep_numerics ? "leave it or --keep-numerics out" : "leave it out");
  space.no_replicas = true;
}

void allow_one_microbatch(SearchSpace& space, const std::string& why) {
  std::vector<int>& counts = space.microbatch_counts;
  if (!counts.empty() && std::ranges::find(counts, 1) == counts.end())
    throw PlanError("micro-batches would change the training: " + why, "--keep-numerics",
                    "leave it, or --microbatches and --split-size, out");
  counts = {1};
}

/// `one` says that one micro-batch keeps the numerics.
void allow_sizes(SearchSpace& space, const SampleRange& samples, bool one) {
  if (samples == SampleRange{}) return;
  space.samples = samples;
  const auto [fewest, most] = allowed_counts(samples, space.batch);
  const std::string what = "the model takes micro-batches of " + text_of(samples) + " samples";
  if (fewest > most)
    throw PlanError(what + ", which a batch of " + std::to_string(space.batch) + " can't be split into", "--batch",
                    samples.most > 0 && samples.most < 2 * samples.least - 1 ? "give a multiple of " + std::to_string(samples.most)
                                                                             : "give at least " + std::to_string(samples.least));
  if (one && fewest > 1)
    throw PlanError(what + ", and numerics are kept by one micro-batch alone", "--keep-numerics",
                    "leave it out, or give --batch " + std::to_string(samples.most) + " or less");
  const auto is_allowed = [&](int count) { return fewest <= count && count <= most; };
  if (!space.microbatch_counts.empty() && std::ranges::none_of(space.microbatch_counts, is_allowed))
    throw PlanError(what, "--microbatches",
                    fewest == most ? "give --microbatches " + std::to_string(fewest)
                                   : "give --microbatches from " + std::to_string(fewest) + " to " + std::to_string(most));
}

}  // namespace

SearchSpace suited_space(SearchSpace space, const std::vector<ProfileLayer>& layers) {
  const auto norm = std::ranges::find_if(layers, &ProfileLayer::batch_statistics);
  const auto writer = std::ranges::find_if(layers, [](const ProfileLayer& layer) { return !layer.written_buffer.empty(); });
  std::string why;
  if (norm != layers.end()) why = norm->name + " normalises over the samples of a micro-batch";
  if (writer != layers.end()) why = writer->name + " writes its buffer " + writer->written_buffer + " once a micro-batch";
  if (!why.empty() && (space.keep_numerics || writer != layers.end())) allow_no_replicas(space, why);
  const bool one = !why.empty() && space.keep_numerics;
  if (one) allow_one_microbatch(space, why);
  allow_sizes(space, profiler::samples_taken(layers), one);
  return space;
}

}  // namespace mptune::planner
