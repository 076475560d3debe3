#include "mptune/reports/cli/plan_choice.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/planner/schedule/schedule_info.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/text.h"
#include "mptune/reports/cli/options.h"
#include "mptune/reports/render/style.h"
#include "mptune/tuner/runtime/capabilities.h"

namespace mptune {
namespace {

constexpr std::int64_t kMostStages = 4096;

std::string schedule_remedy() {
  return "use " + join(schedule_names(), ", ");
}

std::string read_small_file(const std::string& path, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path)) {
    throw Error("the file can't be read", path, remedy);
  }
  return text.str();
}

std::vector<int> parse_replicas(const std::string& text) {
  std::vector<int> replicas;
  for (const std::string& part : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    replicas.push_back(static_cast<int>(parse_whole(part.empty() ? " " : part, "--replicas", 1, kMostStages, 0)));
  }
  return replicas;
}

void choose_schedule(PlanOptions& options, const std::string& schedule) {
  if (schedule.empty() || find_schedule(schedule) != nullptr) {
    options.schedule = schedule.empty() ? kDefaultSchedule : schedule;
    return;
  }
  const std::string remedy = schedule_remedy() + " or a CSV file of actions";
  std::error_code ignored;
  if (!std::filesystem::exists(schedule, ignored)) {
    throw Error("'" + schedule + "' is no schedule and no file", "--schedule", remedy);
  }
  options.schedule.clear();
  options.actions = schedule_from_csv(read_small_file(schedule, remedy), schedule);
}

/// Micro-batches that `--microbatches` or `--split-size` ask for, 0: neither given.
int asked_microbatches(const PlanChoice& choice, int batch) {
  const int count = parse_count(choice.microbatches, "--microbatches", kMostBatch);
  const int size = parse_count(choice.split_size, "--split-size", kMostBatch);
  if (count > 0 && size > 0) {
    throw Error("the number and the size of micro-batches are both given", "--split-size", "leave one of them out");
  }
  if (count > batch || size > batch) {
    throw Error("a batch of " + std::to_string(batch) + " samples can't be split like this", count > 0 ? "--microbatches" : "--split-size",
                "use 1 to " + std::to_string(batch));
  }
  return size > 0 ? (batch + size - 1) / size : count;
}

/// Refuses what no plan could have before anything is measured.
void restrict_recomputation(SearchSpace& space, const std::string& recompute, int layers) {
  const int each = space.virtual_counts.empty() ? 1 : space.virtual_counts.front();
  const int most = std::min(static_cast<int>(space.devices.size()) * each, layers);
  (void)recomputed_stages(recompute, space.stage_counts.empty() ? most : space.stage_counts.front());
  space.recompute = recompute;
}

void refuse_idle_replicas(int microbatches, const std::vector<int>& replicas) {
  const int most = replicas.empty() ? 1 : std::ranges::max(replicas);
  if (microbatches < most) {
    throw Error(fmt::format("{} {} for {} replicas of a stage", microbatches, microbatches == 1 ? "micro-batch" : "micro-batches", most),
                "--replicas", "use at least one micro-batch per replica");
  }
}

void restrict_replicas(SearchSpace& space, const std::string& text, int layers) {
  space.replicas = parse_replicas(text);
  check_replicas(space.replicas, static_cast<int>(space.devices.size()));
  const int stages = static_cast<int>(space.replicas.size());
  if (stages > layers) {
    throw Error(std::to_string(stages) + " stages, but the model has " + std::to_string(layers) + " layers", "--replicas",
                "use at most as many stages as layers");
  }
  if (!space.stage_counts.empty() && space.stage_counts.front() != stages) {
    throw Error(std::to_string(stages) + " replica counts for " + std::to_string(space.stage_counts.front()) + " stages", "--replicas",
                "give one count per stage, or leave --stages out");
  }
  space.stage_counts = {stages};
  const int most = std::ranges::max(space.replicas);
  if (!space.microbatch_counts.empty()) {
    refuse_idle_replicas(space.microbatch_counts.front(), space.replicas);
  }
  if (stages == 1 && !space.microbatch_counts.empty() && space.microbatch_counts.front() % most != 0) {
    throw Error(
        std::to_string(space.microbatch_counts.front()) + " micro-batches can't be shared evenly by " + std::to_string(most) + " replicas",
        "--replicas", "use a multiple of the replicas");
  }
}

/// Several stages per device are searched on all devices.
void restrict_virtual_stages(const SearchSpace& space, int virtual_stages, int stages, int layers) {
  const int devices = static_cast<int>(space.devices.size());
  const std::string wanted =
      std::to_string(virtual_stages) + " stages on each of " + std::to_string(devices) + (devices == 1 ? " device" : " devices");
  if (devices < 2) {
    throw Error(wanted + " make no pipeline", "--stages", "name more devices, or ask for more stages where the file names none");
  }
  if (virtual_stages > layers / devices) {
    throw Error(wanted + ", but the model has " + std::to_string(layers) + " layers", "--virtual", "use fewer of either");
  }
  if (stages > 0 && stages != devices * virtual_stages) {
    throw Error(std::to_string(stages) + " stages are not " + wanted, "--stages",
                "use " + std::to_string(devices * virtual_stages) + ", or other --devices or --virtual");
  }
}

void restrict_stages(SearchSpace& space, const PlanChoice& choice, int layers) {
  const int stages = parse_count(choice.stages, "--stages", kMostStages);
  const int most = std::min(static_cast<int>(space.devices.size()), layers);
  if (stages > layers) {
    throw Error(std::to_string(stages) + " stages, but the model has " + std::to_string(layers) + " layers", "--stages",
                "use at most " + std::to_string(layers));
  }
  if (const int virtual_stages = asked_virtual_stages(choice); virtual_stages > 1) {
    if (!choice.replicas.empty()) {
      throw Error("replicas and several stages per device exclude each other", "--replicas",
                  "leave --replicas out, or put one stage on each device");
    }
    restrict_virtual_stages(space, virtual_stages, stages, layers);
  } else if (stages > most) {
    throw Error(std::to_string(stages) + " stages for " + std::to_string(most) + (most == 1 ? " device" : " devices"), "--stages",
                "use at most " + std::to_string(most) + ", name more devices, or put several on each with --virtual");
  }
  if (stages > 0) {
    space.stage_counts = {stages};
  }
  if (!choice.replicas.empty()) {
    restrict_replicas(space, choice.replicas, layers);
  }
}

}  // namespace

int asked_virtual_stages(const PlanChoice& choice) {
  const int asked = parse_count(choice.virtual_stages, "--virtual", kMostStages);
  const bool named = asked == 0 && find_schedule(choice.schedule) != nullptr;
  return named && schedule_info(choice.schedule).least_virtual_stages > 1 ? schedule_info(choice.schedule).least_virtual_stages : asked;
}

void check_executable(const Plan& plan, const std::string& where) {
  if (const std::string why = why_not_executable(plan, kRuntime); !why.empty()) {
    throw Error(plan.schedule + " can't be run: " + why, where, "use a schedule with whole backwards, such as 1f1b or interleaved");
  }
}

std::string why_not_executable(const SearchSpace& space) {
  if (space.schedules.size() != 1) {
    return "";
  }
  const int virtual_stages = space.virtual_counts.empty() ? 0 : space.virtual_counts.front();
  return why_schedule_not_executable(space.schedules.front(), virtual_stages, kRuntime);
}

void check_schedule_executable(const SearchSpace& space) {
  if (const std::string why = why_not_executable(space); !why.empty()) {
    throw Error(space.schedules.front() + " can't be run: " + why, "--schedule",
                "use a schedule with whole backwards, such as 1f1b or interleaved, or only plan it, with mptune plan");
  }
}

bool PlanChoice::any() const {
  for (const std::string* text : {&stages, &virtual_stages, &cuts, &microbatches, &split_size, &schedule, &recompute, &replicas}) {
    if (!text->empty()) {
      return true;
    }
  }
  return false;
}

void add_plan_options(CLI::App& command, PlanChoice& options, bool searched) {
  const auto add = [&](const char* name, std::string& value, const char* type, const std::string& what, const std::string& otherwise) {
    const std::string help = searched || otherwise.empty() ? what : what + "; default: " + otherwise;
    CLI::Option* option = command.add_option(name, value, help)->type_name(type);
    if (searched) {
      option->group("Search only plans with");
    }
  };
  add("--stages", options.stages, "K", "number of stages", "one per device, or --virtual per device");
  add("--virtual", options.virtual_stages, "V", "stages per device", "2 for interleaved, looped-bfs and the V-schedules, else 1");
  add("--cuts", options.cuts, "LIST", "first layer of each later stage, by number or name: 4,9", "equal layer counts");
  add("--microbatches", options.microbatches, "M", "micro-batches of the whole batch", "4 x stages, at most the batch; 1 for naive");
  add("--split-size", options.split_size, "S", "samples in each micro-batch, instead of --microbatches", "");
  add("--schedule", options.schedule, searched ? "NAME" : "NAME|FILE",
      join(schedule_names(), ", ") + (searched ? "" : "; or a CSV file of actions"), kDefaultSchedule);
  add("--recompute", options.recompute, "WHAT", "activations computed again in backward: none, all or of stages 0,2", "none");
  add("--replicas", options.replicas, "LIST", "devices per stage, taken in order: 2,1", "1 each");
}

void add_plan_file_options(CLI::App& command, PlanChoice& options, const std::string& help) {
  command.add_option("--plan", options.plan, help)->type_name("FILE");
  command.add_flag("--strict", options.strict, "refuse a plan made for another model or machine");
}

std::vector<int> parse_cuts(const std::string& text, const std::vector<ProfileLayer>& layers) {
  std::vector<int> cuts;
  if (text.empty()) {
    return cuts;
  }
  const int last = static_cast<int>(layers.size()) - 1;
  for (const std::string& part : split(text, ',')) {
    const auto named = std::ranges::find(layers, part, &ProfileLayer::name);
    int cut = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), cut);
    // A number is a position even where a layer is named by a number.
    if (part.empty() || error != std::errc{} || end != part.data() + part.size()) {
      if (named == layers.end()) {
        throw Error("unknown layer '" + part + "'", "--cuts", "use numbers from 1 to " + std::to_string(last) + " or names of layers");
      }
      cut = static_cast<int>(named - layers.begin());
    }
    if (cut < 1 || cut > last) {
      throw Error("cut '" + part + "' is out of range", "--cuts", "use layers from 1 to " + std::to_string(last));
    }
    if (!cuts.empty() && cut <= cuts.back()) {
      throw Error("cut '" + part + "' leaves an empty stage", "--cuts", "list the cuts in ascending order, each once");
    }
    cuts.push_back(cut);
  }
  return cuts;
}

Plan plan_from_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                       const std::vector<ProfileLayer>& layers) {
  PlanOptions options;
  options.devices = devices;
  options.batch = batch;
  options.layers = static_cast<int>(layers.size());
  options.cuts = parse_cuts(choice.cuts, layers);
  options.stages = parse_count(choice.stages, "--stages", kMostStages);
  options.virtual_stages = parse_count(choice.virtual_stages, "--virtual", kMostStages);
  (void)asked_microbatches(choice, batch);
  options.microbatches = parse_count(choice.microbatches, "--microbatches", kMostBatch);
  options.split_size = parse_count(choice.split_size, "--split-size", kMostBatch);
  options.replicas = parse_replicas(choice.replicas);
  options.recompute = choice.recompute.empty() ? "none" : choice.recompute;
  choose_schedule(options, choice.schedule);
  Plan plan = make_plan(options);
  refuse_idle_replicas(plan.num_microbatches(), options.replicas);
  return plan;
}

SearchSpace search_space(const PlanChoice& choice, const std::vector<DeviceSpec>& devices, const std::vector<std::int64_t>& memory,
                         int batch, const std::vector<ProfileLayer>& layers) {
  SearchSpace space;
  for (const DeviceSpec& device : devices) {
    space.devices.push_back(device.name);
  }
  const std::string whole = whole_machine_device(devices);
  if (!whole.empty()) {
    space.whole_machine = {whole};
  }
  space.memory_bytes = memory;
  space.whole_machine_memory_bytes = whole_machine_cap(memory);
  space.batch = batch;
  space.capabilities = kRuntime;
  if (const int count = asked_microbatches(choice, batch); count > 0) {
    space.microbatch_counts = {count};
  }
  if (!choice.schedule.empty()) {
    if (find_schedule(choice.schedule) == nullptr) {
      throw Error("'" + choice.schedule + "' is no schedule that can be searched", "--schedule", schedule_remedy());
    }
    if (schedule_info(choice.schedule).one_microbatch && !space.microbatch_counts.empty() && space.microbatch_counts.front() > 1) {
      throw Error(choice.schedule + " runs the batch as one micro-batch, not as " + std::to_string(space.microbatch_counts.front()),
                  "--schedule", "leave --microbatches and --split-size out, or use another schedule");
    }
    space.schedules = {choice.schedule};
  }
  if (const int virtual_stages = asked_virtual_stages(choice); virtual_stages > 0) {
    space.virtual_counts = {virtual_stages};
    if (!choice.schedule.empty()) {
      (void)stage_devices(choice.schedule, 1, virtual_stages);
    }
  }
  restrict_stages(space, choice, static_cast<int>(layers.size()));
  if (const std::vector<int> cuts = parse_cuts(choice.cuts, layers); !cuts.empty()) {
    const int stages = static_cast<int>(cuts.size()) + 1;
    if (!space.stage_counts.empty() && space.stage_counts.front() != stages) {
      throw Error(std::to_string(cuts.size()) + " cuts do not make " + std::to_string(space.stage_counts.front()) + " stages", "--cuts",
                  "leave --stages out, or give one cut less than stages");
    }
    const int each = std::max(1, asked_virtual_stages(choice));
    const int most = static_cast<int>(space.devices.size()) * each;
    if (stages > most || (each > 1 && stages != most)) {
      throw Error(std::to_string(stages) + " stages for " + std::to_string(space.devices.size()) + " devices" +
                      (each > 1 ? " with " + std::to_string(each) + " on each" : ""),
                  "--cuts", each > 1 ? "give " + std::to_string(most - 1) + " cuts" : "name more devices or fewer cuts");
    }
    space.cuts = {cuts};
    space.stage_counts = {stages};
  }
  restrict_recomputation(space, choice.recompute, static_cast<int>(layers.size()));
  return space;
}

}  // namespace mptune
