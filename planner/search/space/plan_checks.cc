#include "planner/search/space/plan_checks.h"

#include <algorithm>

#include "planner/plan/field.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

/// Returns the places as text: "3, 6, 9, .."
std::string some_of(const std::vector<int>& places) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> numbers;
  for (const int place : places)
    if (numbers.size() < kShown) numbers.push_back(std::to_string(place));
  return join(numbers, ", ") + (places.size() > kShown ? ", .." : "");
}

}  // namespace

void check_stages(int stages, int layers) {
  if (stages < 0) throw FieldError(Field::stages, "a negative number of stages", "use at least 1");
  if (stages > layers)
    throw FieldError(Field::stages, std::to_string(stages) + " stages, but the model has " + std::to_string(layers) + " layers",
                     "use at most " + std::to_string(layers));
}

void check_stages_per_device(const PlanOptions& options, int devices, int each) {
  const bool by_schedule = options.virtual_stages == 0;
  const Field field = by_schedule ? Field::schedule : Field::virtual_stages;
  const std::string who = by_schedule ? options.schedule + " has " : "";
  if (each > options.layers / devices)
    throw FieldError(field,
                     who + std::to_string(each) + " stages on each of " + std::to_string(devices) +
                         (devices == 1 ? " device" : " devices") + ", but the model has " + std::to_string(options.layers) +
                         (options.layers == 1 ? " layer" : " layers"),
                     by_schedule ? "use fewer devices, or a schedule with one stage per device, such as 1f1b" : "use fewer of either");
}

void check_cuts(const std::vector<int>& cuts, int layers) {
  int before = 0;
  for (const int cut : cuts) {
    if (cut < 1 || cut >= layers)
      throw FieldError(Field::cuts, "cut " + std::to_string(cut) + " is out of range",
                       "use layers from 1 to " + std::to_string(layers - 1));
    if (cut <= before)
      throw FieldError(Field::cuts, "cut " + std::to_string(cut) + " leaves an empty stage", "list the cuts in ascending order, each once");
    before = cut;
  }
}

void check_cut_places(const std::vector<int>& cuts, const std::vector<int>& places, int stages) {
  if (places.empty()) return;
  if (stages > std::ssize(places) + 1)
    throw FieldError(Field::stages,
                     std::to_string(stages) + " stages, but `cut_at` names " + counted(std::ssize(places), "place") + " for a cut",
                     "use at most " + std::to_string(places.size() + 1) + ", or leave `cut_at` out");
  for (const int cut : cuts)
    if (!std::ranges::binary_search(places, cut))
      throw FieldError(Field::cuts, "cut " + std::to_string(cut) + " is not before a module that `cut_at` names",
                       "use " + some_of(places) + ", or leave `cut_at` out");
}

void check_microbatches(const PlanOptions& options) {
  const auto of_batch = [&] { return " of a batch of " + std::to_string(options.batch); };
  if (options.batch < 1) throw FieldError(Field::batch, "the batch has no samples", "use at least 1");
  if (options.microbatches < 0) throw FieldError(Field::microbatches, "a negative number of micro-batches", "use at least 1");
  if (options.split_size < 0) throw FieldError(Field::split_size, "a negative micro-batch size", "use at least 1");
  if (options.microbatches > 0 && options.split_size > 0)
    throw FieldError(Field::split_size, "both the number and the size of micro-batches are given", "leave one of them out");
  if (options.split_size > options.batch)
    throw FieldError(Field::split_size, "micro-batches of " + std::to_string(options.split_size) + of_batch(), "use at most the batch");
  if (options.microbatches > options.batch)
    throw FieldError(Field::microbatches, std::to_string(options.microbatches) + " micro-batches" + of_batch(),
                     "use at most one micro-batch per sample");
}

void check_replica_counts(const PlanOptions& options) {
  const std::size_t stages = options.replicas.size();
  if (options.stages > 0 && options.stages != std::ssize(options.replicas))
    throw FieldError(Field::replicas, std::to_string(stages) + " replica counts for " + std::to_string(options.stages) + " stages",
                     "give one count per stage, or leave `stages` out");
}

void check_replicas_work(const std::vector<int>& replicas, int microbatches) {
  const int most = replicas.empty() ? 1 : std::ranges::max(replicas);
  if (microbatches < most)
    throw FieldError(Field::replicas,
                     std::to_string(microbatches) + (microbatches == 1 ? " micro-batch" : " micro-batches") + " for " +
                         std::to_string(most) + " replicas of a stage",
                     "use at least one micro-batch per replica");
}

}  // namespace mptune::planner
