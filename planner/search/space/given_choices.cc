#include "planner/search/space/given_choices.h"
#include "planner/schedule/schedule_info.h"

#include <algorithm>

#include "planner/plan/field.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/space/plan_checks.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

int devices_of(const SearchSpace& space) {
  return static_cast<int>(space.devices.size());
}

std::string devices_text(int devices) {
  return std::to_string(devices) + (devices == 1 ? " device" : " devices");
}

/// Returns the number of micro-batches that their number or their size asks for; 0: neither.
int asked_microbatches(const PlanOptions& wanted) {
  check_microbatches(wanted);
  return wanted.split_size > 0 ? (wanted.batch + wanted.split_size - 1) / wanted.split_size : wanted.microbatches;
}

void restrict_schedule(SearchSpace& space, const PlanOptions& wanted) {
  if (wanted.schedule.empty()) return;
  const ScheduleInfo* schedule = find_schedule(wanted.schedule);
  if (schedule == nullptr)
    throw FieldError(Field::schedule, "'" + wanted.schedule + "' is not a schedule that can be searched",
                     did_you_mean(wanted.schedule, schedule_names(), "use " + join(schedule_names(), ", ")));
  const int count = space.microbatch_counts.empty() ? 1 : space.microbatch_counts.front();
  if (schedule->one_microbatch && count > 1)
    throw FieldError(Field::schedule, wanted.schedule + " runs the batch as one micro-batch, not as " + std::to_string(count),
                     "leave `microbatches` and `split_size` out, or use another schedule");
  space.schedules = {wanted.schedule};
}

void restrict_virtual_stages(SearchSpace& space, const PlanOptions& wanted) {
  const int virtual_stages = asked_virtual_stages(wanted);
  if (virtual_stages == 0) return;
  space.virtual_counts = {virtual_stages};
  if (!wanted.schedule.empty()) (void)stage_devices(wanted.schedule, 1, virtual_stages);
}

/// Several stages per device are searched on all devices only.
void check_virtual_stages(const SearchSpace& space, const PlanOptions& wanted, int virtual_stages) {
  const int devices = devices_of(space);
  const std::string text = std::to_string(virtual_stages) + " stages on each of " + devices_text(devices);
  if (!wanted.replicas.empty())
    throw FieldError(Field::replicas, "replicas and several stages per device exclude each other",
                     "leave `replicas` out, or put one stage on each device");
  if (devices < 2)
    throw FieldError(Field::stages, "several stages per device need at least 2 devices, not " + std::to_string(devices),
                     "name more devices, or ask for more stages where the file names none");
  check_stages_per_device(wanted, devices, virtual_stages);
  if (wanted.stages > 0 && wanted.stages != devices * virtual_stages)
    throw FieldError(Field::stages, std::to_string(wanted.stages) + " stages are not " + text,
                     "use " + std::to_string(devices * virtual_stages) + ", or other `devices` or `virtual_stages`");
}

void restrict_stages(SearchSpace& space, const PlanOptions& wanted) {
  check_stages(wanted.stages, wanted.layers);
  const int most = std::min(devices_of(space), wanted.layers);
  if (const int virtual_stages = asked_virtual_stages(wanted); virtual_stages > 1) {
    check_virtual_stages(space, wanted, virtual_stages);
  } else if (wanted.stages > most) {
    throw FieldError(Field::stages, std::to_string(wanted.stages) + " stages for " + devices_text(most),
                     "use at most " + std::to_string(most) + ", name more devices, or put several on each with `virtual_stages`");
  }
  if (wanted.stages > 0) space.stage_counts = {wanted.stages};
}

void restrict_replicas(SearchSpace& space, const PlanOptions& wanted) {
  if (wanted.replicas.empty()) return;
  check_replicas(wanted.replicas, devices_of(space));
  const int stages = static_cast<int>(wanted.replicas.size());
  if (stages > wanted.layers)
    throw FieldError(Field::replicas, std::to_string(stages) + " stages, but the model has " + std::to_string(wanted.layers) + " layers",
                     "use at most as many stages as layers");
  check_replica_counts(wanted);
  space.replicas = wanted.replicas;
  space.stage_counts = {stages};
  if (space.microbatch_counts.empty()) return;
  const int count = space.microbatch_counts.front();
  const int most = std::ranges::max(wanted.replicas);
  check_replicas_work(wanted.replicas, count);
  if (stages == 1 && count % most != 0)
    throw FieldError(Field::replicas,
                     std::to_string(count) + " micro-batches can't be shared evenly by " + std::to_string(most) + " replicas",
                     "use a multiple of the replicas");
}

void restrict_cuts(SearchSpace& space, const PlanOptions& wanted) {
  if (wanted.cuts.empty()) return;
  const int stages = static_cast<int>(wanted.cuts.size()) + 1;
  if (!space.stage_counts.empty() && space.stage_counts.front() != stages)
    throw FieldError(Field::cuts,
                     std::to_string(wanted.cuts.size()) + " cuts do not make " + std::to_string(space.stage_counts.front()) + " stages",
                     "leave `stages` out, or give one cut less than stages");
  check_cuts(wanted.cuts, wanted.layers);
  const int each = std::max(1, asked_virtual_stages(wanted));
  const int most = devices_of(space) * each;
  if (stages > most || (each > 1 && stages != most))
    throw FieldError(Field::cuts,
                     std::to_string(stages) + " stages for " + devices_text(devices_of(space)) +
                         (each > 1 ? " with " + std::to_string(each) + " on each" : ""),
                     each > 1 ? "give " + std::to_string(most - 1) + " cuts" : "name more devices or fewer cuts");
  space.cuts = {wanted.cuts};
  space.stage_counts = {stages};
}

/// Refuses, before anything is measured, what no plan could have.
void restrict_recomputation(SearchSpace& space, const PlanOptions& wanted) {
  const int each = space.virtual_counts.empty() ? 1 : space.virtual_counts.front();
  const int most = std::min(devices_of(space) * each, wanted.layers);
  (void)recomputed_stages(wanted.recompute, space.stage_counts.empty() ? most : space.stage_counts.front());
  space.recompute = wanted.recompute;
}

}  // namespace

int asked_virtual_stages(const PlanOptions& wanted) {
  const ScheduleInfo* schedule = find_schedule(wanted.schedule);
  if (wanted.virtual_stages > 0 || schedule == nullptr) return wanted.virtual_stages;
  const int usual = schedule->least_virtual_stages;
  return usual > 1 ? usual : 0;
}

SearchSpace search_space(const PlanOptions& wanted) {
  SearchSpace space;
  space.devices = wanted.devices;
  space.batch = wanted.batch;
  if (const int count = asked_microbatches(wanted); count > 0) space.microbatch_counts = {count};
  restrict_schedule(space, wanted);
  restrict_virtual_stages(space, wanted);
  restrict_stages(space, wanted);
  restrict_replicas(space, wanted);
  restrict_cuts(space, wanted);
  space.cut_places = wanted.cut_places;
  const int each = space.virtual_counts.empty() ? 1 : space.virtual_counts.front();
  const int stages = !space.stage_counts.empty() ? space.stage_counts.front() : each > 1 ? each * devices_of(space) : 0;
  check_cut_places(wanted.cuts, wanted.cut_places, stages);
  restrict_recomputation(space, wanted);
  return space;
}

std::string why_not_executable(const SearchSpace& space, const Capabilities& capabilities) {
  if (space.schedules.size() != 1) return "";
  const int virtual_stages = space.virtual_counts.empty() ? 0 : space.virtual_counts.front();
  return why_schedule_not_executable(space.schedules.front(), virtual_stages, capabilities);
}

}  // namespace mptune::planner
