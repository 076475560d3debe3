#include "reports/cli/options/plan_choice.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "planner/plan/plan_error.h"
#include "planner/plan/threads.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/cut_places.h"
#include "planner/search/space/given_choices.h"
#include "planner/search/space/plan_checks.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "profiler/trace/values/samples_taken.h"
#include "reports/cli/options/options.h"
#include "reports/render/style.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::reports {
namespace {

constexpr std::int64_t kMostStages = 4096;

std::string read_small_file(const std::string& path, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path)) throw Error("the file can't be read", path, remedy);
  return text.str();
}

Error empty_stage(const std::string& cut) {
  return {"cut '" + cut + "' leaves an empty stage", "--cuts", "list the cuts in ascending order, each once"};
}

std::vector<int> parse_replicas(const std::string& text) {
  std::vector<int> replicas;
  for (const std::string& part : text.empty() ? std::vector<std::string>{} : split(text, ','))
    replicas.push_back(static_cast<int>(parse_whole(part.empty() ? " " : part, "--replicas", 1, kMostStages, 0)));
  return replicas;
}

std::optional<MemoryFormat> parse_memory_format(const PlanChoice& choice) {
  if (choice.memory_format.empty()) return std::nullopt;
  const auto format = memory_format_of(choice.memory_format);
  if (!format)
    throw Error(
        "'" + choice.memory_format + "' is not a memory format", "--memory-format",
        did_you_mean(choice.memory_format, {kMemoryFormatNames.begin(), kMemoryFormatNames.end()}, "use contiguous or channels_last"));
  if (choice.exact && *format != MemoryFormat::contiguous)
    throw Error("sums in channels_last round otherwise than the un-pipelined model's", "--exact", "leave it or --memory-format out");
  return format;
}

int most_threads(const std::vector<std::string>& devices) {
  int most = 1;
  for (const std::string& device : devices) most = std::max(most, planner::default_threads(device));
  return most;
}

/// Returns --threads. 0 means one per core, which is as many as the largest device has cores.
std::optional<int> parse_threads(const PlanChoice& choice, const std::vector<std::string>& devices) {
  if (choice.threads.empty()) return std::nullopt;
  const auto is_cpu = [](const std::string& device) { return device_kind(device) == DeviceSpec::Kind::cpu; };
  if (std::ranges::none_of(devices, is_cpu))
    throw Error("only CPU devices have intra-op threads to choose, not " + devices.at(0), "--threads", "leave it out");
  const int most = most_threads(devices);
  const std::optional<std::int64_t> count = integer(choice.threads);
  if (!count || *count < 1 || *count > most)
    throw Error("'" + choice.threads.substr(0, 40) + "' is not a number of threads: the largest device has " + std::to_string(most) +
                    (most == 1 ? " core" : " cores"),
                "--threads", most == 1 ? "use 1, or name devices of several cores, like cpu:0-3" : "use 1 to " + std::to_string(most));
  if (choice.exact && *count < most)
    throw Error("sums over fewer threads round otherwise than the un-pipelined model's", "--exact", "leave it or --threads out");
  return *count == most ? 0 : static_cast<int>(*count);
}

/// Returns one per core first, unless another number is asked for, then all smaller numbers that the largest device may have.
std::vector<int> searched_threads(const PlanChoice& choice, const std::vector<std::string>& devices) {
  if (const auto threads = parse_threads(choice, devices)) return {*threads};
  std::vector<int> counts(choice.exact ? 1 : as_index(most_threads(devices)));
  std::iota(counts.begin(), counts.end(), 0);
  return counts;
}

/// Returns the variants, the default or the given one first. The search leaves out those for which the profile has no costs.
std::vector<ExecutionVariant> searched_variants(const PlanChoice& choice, const std::vector<std::string>& devices) {
  std::vector<MemoryFormat> formats{MemoryFormat::contiguous, MemoryFormat::channels_last};
  if (const auto format = parse_memory_format(choice)) formats = {*format};
  std::vector<ExecutionVariant> variants;
  for (const int threads : searched_threads(choice, devices))
    for (const bool replace : {false, true})
      for (const MemoryFormat format : formats)
        if (!replace || choice.allows_replaced_kernels()) variants.push_back({format, replace, threads});
  return variants;
}

/// Takes the schedule from a name, or from the actions of a file.
void choose_schedule(PlanOptions& options) {
  if (options.schedule.empty() || planner::find_schedule(options.schedule) != nullptr) return;
  const std::string schedule = std::exchange(options.schedule, "");
  const std::vector<std::string>& names = planner::schedule_names();
  const std::string remedy = "use " + join(names, ", ") + " or a CSV file of actions";
  std::error_code ignored;
  if (!std::filesystem::exists(schedule, ignored))
    throw Error("'" + schedule + "' is neither a schedule nor a file", "--schedule", did_you_mean(schedule, names, remedy));
  options.actions = planner::schedule_from_csv(read_small_file(schedule, remedy), schedule);
}

/// Asks each division whether it can have what is asked for.
SearchSpace divided_space(const PlanChoice& choice, const Division& devices, int batch, const std::vector<ProfileLayer>& layers,
                          const std::vector<Division>& divisions) {
  const auto space_over = [&](const Division& division) {
    SearchSpace space = planner::search_space(plan_options(choice, division.devices, batch, layers));
    space.memory_bytes = division.memory_bytes;
    return space;
  };
  const auto possible = [&](const Division& division) { return planner::if_possible([&] { return space_over(division); }).has_value(); };
  std::vector<Division> left;
  std::ranges::copy_if(divisions, std::back_inserter(left), possible);
  SearchSpace space = space_over(left.empty() || possible(devices) ? devices : left.back());
  space.divisions = std::move(left);
  return space;
}

/// Checks that numbers among the first cuts ascend, which they do whatever the model is. The place of a name is known only with the model.
void check_order_of_numbers(const std::string& cuts) {
  std::int64_t before = 0;
  for (const std::string& part : split(cuts, ',')) {
    const std::optional<std::int64_t> cut = integer(part);
    if (!cut || *cut < 1) return;
    if (*cut <= before) throw empty_stage(part);
    before = *cut;
  }
}

/// The choice as it can be checked while the model is unknown.
struct WithoutModel {
  PlanChoice choice;
  std::vector<ProfileLayer> layers;  ///< as many as any plan of the choice needs; empty: too many to try
  int batch = 0;
};

WithoutModel without_model(const PlanChoice& choice, std::size_t devices, int batch) {
  constexpr int kMostTried = 256;  // stages, and micro-batches: making a plan with more takes long
  WithoutModel without{choice, {}, batch};
  const PlanOptions values = plan_values(choice);
  check_order_of_numbers(choice.cuts);
  const std::size_t cuts = choice.cuts.empty() ? 0 : split(choice.cuts, ',').size();
  const std::size_t most = std::max({as_index(values.stages), as_index(values.virtual_stages) * devices, cuts + 1, 2 * devices});
  if (most > kMostTried || values.microbatches > kMostTried) return without;
  without.layers.resize(kMostTried);
  std::vector<std::string> places;
  for (std::size_t cut = 1; cut <= cuts; ++cut) places.push_back(std::to_string(cut));
  without.choice.cuts = join(places, ",");
  without.choice.cut_at.clear();  // it names modules
  if (batch > 0) return without;
  if (values.microbatches == 0 || values.split_size == 0) without.choice.split_size.clear();
  without.batch = values.microbatches > 0 ? values.microbatches : 4 * kMostTried;
  return without;
}

}  // namespace

void check_before_model(const PlanChoice& choice, const std::vector<std::string>& devices, int batch) {
  (void)parse_memory_format(choice);
  (void)parse_threads(choice, devices);
  const WithoutModel without = without_model(choice, devices.size(), batch);
  if (!without.layers.empty()) check_executable(plan_from_options(without.choice, devices, without.batch, without.layers), "--schedule");
}

void check_search_before_model(const PlanChoice& choice, const std::vector<DeviceSpec>& devices, int batch,
                               const std::vector<Division>& divisions) {
  const WithoutModel without = without_model(choice, devices.size(), batch);
  if (without.layers.empty()) return;
  const std::vector<std::int64_t> no_caps(devices.size());
  check_schedule_executable(search_space(without.choice, devices, no_caps, without.batch, without.layers, divisions));
}

void check_executable(const Plan& plan, const std::string& where) {
  if (const std::string why = why_not_executable(plan, tuner::kRuntime); !why.empty())
    throw planner::PlanError(plan.schedule + " can't be run: " + why, where,
                             "use a schedule with whole backwards, such as 1f1b or interleaved");
}

void check_schedule_executable(const SearchSpace& space) {
  if (const std::string why = planner::why_not_executable(space, tuner::kRuntime); !why.empty()) {
    throw planner::PlanError(space.schedules.front() + " can't be run: " + why, "--schedule",
                             "use a schedule with whole backwards, such as 1f1b or interleaved, or only plan it, with mptune plan");
  }
}

void check_one_plan(bool options_given, const std::string& where) {
  if (options_given) throw Error("a plan file and options of a plan are both given", where, "leave one of them out");
}

void check_memory_format(const PlanChoice& choice, bool convolutions) {
  if (parse_memory_format(choice) == MemoryFormat::channels_last && !convolutions)
    throw Error("the memory format matters to convolutions alone, and the model has none", "--memory-format", "leave it out");
}

std::vector<int> measured_threads(const PlanChoice& choice, const std::vector<std::string>& devices, const Plan* plan) {
  const std::optional<int> asked = parse_threads(choice, devices);
  std::set<int> counts;
  if (asked.value_or(1) > 0 && !choice.exact && most_threads(devices) > 1) counts.insert({1, asked.value_or(1)});
  if (plan != nullptr) counts.insert(plan->options.threads.begin(), plan->options.threads.end());
  return {counts.begin(), counts.end()};
}

std::vector<int> parse_cuts(const std::string& text, const std::vector<ProfileLayer>& layers) {
  std::vector<int> cuts;
  if (text.empty()) return cuts;
  const int last = static_cast<int>(layers.size()) - 1;
  for (const std::string& part : split(text, ',')) {
    const auto named = std::ranges::find(layers, part, &ProfileLayer::name);
    int cut = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), cut);
    // A number is a position even where a layer is named by a number.
    if (part.empty() || error != std::errc{} || end != part.data() + part.size()) {
      if (named == layers.end())
        throw Error("unknown layer '" + part + "'", "--cuts", "use numbers from 1 to " + std::to_string(last) + " or names of layers");
      cut = static_cast<int>(named - layers.begin());
    }
    if (cut < 1 || cut > last) throw Error("cut '" + part + "' is out of range", "--cuts", "use layers from 1 to " + std::to_string(last));
    if (!cuts.empty() && cut <= cuts.back()) throw empty_stage(part);
    cuts.push_back(cut);
  }
  return cuts;
}

PlanOptions plan_values(const PlanChoice& choice) {
  PlanOptions options;
  options.stages = parse_count(choice.stages, "--stages", kMostStages);
  options.virtual_stages = parse_count(choice.virtual_stages, "--virtual", kMostStages);
  options.microbatches = parse_count(choice.microbatches, "--microbatches", kMostBatch);
  options.split_size = parse_count(choice.split_size, "--split-size", kMostBatch);
  options.schedule = choice.schedule;
  options.recompute = choice.recompute;
  options.offload = choice.offload;
  options.replicas = parse_replicas(choice.replicas);
  return options;
}

PlanOptions plan_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                         const std::vector<ProfileLayer>& layers) {
  PlanOptions options = plan_values(choice);
  options.devices = devices;
  options.batch = batch;
  options.layers = static_cast<int>(layers.size());
  options.samples = profiler::samples_taken(layers);
  options.cuts = parse_cuts(choice.cuts, layers);
  if (!choice.cut_at.empty()) options.cut_places = planner::cut_places(choice.cut_at, layers);
  return options;
}

Plan plan_from_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                       const std::vector<ProfileLayer>& layers) {
  PlanOptions options = plan_options(choice, devices, batch, layers);
  choose_schedule(options);
  Plan plan = make_plan(options);
  planner::check_replicas_work(options.replicas, plan.num_microbatches());
  plan.options.memory_format = parse_memory_format(choice).value_or(MemoryFormat::contiguous);
  plan.options.threads = planner::threads_of_devices(plan.devices, parse_threads(choice, devices).value_or(0));
  return plan;
}

SearchSpace search_space(const PlanChoice& choice, const std::vector<DeviceSpec>& devices, const std::vector<std::int64_t>& memory,
                         int batch, const std::vector<ProfileLayer>& layers, const std::vector<Division>& divisions) {
  std::vector<std::string> names;
  for (const DeviceSpec& device : devices) names.push_back(device.name);
  SearchSpace space = divided_space(choice, {names, memory}, batch, layers, divisions);
  if (const std::string whole = whole_machine_device(devices); !whole.empty()) space.whole_machine = {whole};
  space.whole_machine_memory_bytes = whole_machine_cap(memory);
  space.capabilities = tuner::kRuntime;
  space.capabilities.offload = !choice.no_offload;
  space.idle_devices_help = true;
  space.exact = choice.exact;
  space.keep_numerics = choice.keep_numerics;
  for (const Division& division : space.divisions) names.insert(names.end(), division.devices.begin(), division.devices.end());
  space.variants = searched_variants(choice, names);
  return space;
}

}  // namespace mptune::reports
