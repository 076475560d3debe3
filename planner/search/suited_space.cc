#include "planner/search/suited_space.h"

#include <algorithm>

#include "profiler/base/error.h"

namespace mptune::planner {
namespace {

void allow_no_replicas(SearchSpace& space, const std::string& why) {
  if (std::ranges::any_of(space.replicas, [](int count) { return count > 1; }))
    throw Error("replicas would change the training: " + why, "--replicas",
                space.keep_numerics ? "leave it or --keep-numerics out" : "leave it out");
  space.no_replicas = true;
}

void allow_one_microbatch(SearchSpace& space, const std::string& why) {
  std::vector<int>& counts = space.microbatch_counts;
  if (!counts.empty() && std::ranges::find(counts, 1) == counts.end())
    throw Error("micro-batches would change the training: " + why, "--keep-numerics", "leave it, or --microbatches and --split-size, out");
  counts = {1};
}

}  // namespace

SearchSpace suited_space(SearchSpace space, const std::vector<ProfileLayer>& layers) {
  const auto norm = std::ranges::find_if(layers, &ProfileLayer::batch_statistics);
  const auto writer = std::ranges::find_if(layers, [](const ProfileLayer& layer) { return !layer.written_buffer.empty(); });
  std::string why;
  if (norm != layers.end()) why = norm->name + " normalises over the samples of a micro-batch";
  if (writer != layers.end()) why = writer->name + " writes its buffer " + writer->written_buffer + " once a micro-batch";
  if (why.empty() || (!space.keep_numerics && writer == layers.end())) return space;
  allow_no_replicas(space, why);
  if (space.keep_numerics) allow_one_microbatch(space, why);
  return space;
}

}  // namespace mptune::planner
