#include "reports/cli/options/plan_choice_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "planner/plan/plan.h"
#include "planner/schedule/schedule_info.h"
#include "profiler/base/text.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {

static constexpr const char* kSearchedGroup = "Search only plans with";

const std::vector<PlanChoiceOption>& plan_choice_options() {
  using planner::Field;
  using Of = PlanChoiceOption::Of;
  static const std::vector<PlanChoiceOption> options = {
      {.name = "--stages",
       .text = &PlanChoice::stages,
       .field = Field::stages,
       .type = "K",
       .help = "number of stages",
       .otherwise = "one per device, or --virtual per device"},
      {.name = "--virtual",
       .text = &PlanChoice::virtual_stages,
       .field = Field::virtual_stages,
       .type = "V",
       .help = "stages per device",
       .otherwise = "2 for interleaved, looped-bfs and the V-schedules, else 1"},
      {.name = "--cuts",
       .text = &PlanChoice::cuts,
       .field = Field::cuts,
       .type = "LIST",
       .help = "first layer of each later stage, by number or name: 4,9",
       .otherwise = "equal layer counts"},
      {.name = "--cut-at",
       .text = &PlanChoice::cut_at,
       .field = Field::cut_at,
       .type = "PATTERN",
       .help = "stages begin only with modules of such names: 'model.layers.*'"},
      {.name = "--microbatches",
       .text = &PlanChoice::microbatches,
       .field = Field::microbatches,
       .type = "M",
       .help = "micro-batches of the whole batch",
       .otherwise = "4 x stages, at most the batch; 1 for naive"},
      {.name = "--split-size",
       .text = &PlanChoice::split_size,
       .field = Field::split_size,
       .type = "S",
       .help = "samples in each micro-batch, instead of --microbatches"},
      {.name = "--schedule",
       .text = &PlanChoice::schedule,
       .field = Field::schedule,
       .type = "NAME",
       .help = join(planner::schedule_names(), ", "),
       .otherwise = kDefaultSchedule,
       .file_help = "; or a CSV file of actions",
       .words = planner::schedule_names()},
      {.name = "--recompute",
       .text = &PlanChoice::recompute,
       .field = Field::recompute,
       .type = "WHAT",
       .help = "activations computed again in backward: none, all or of stages 0,2",
       .otherwise = "none",
       .words = {"none", "all"}},
      {.name = "--offload",
       .text = &PlanChoice::offload,
       .field = Field::offload,
       .type = "WHAT",
       .help = "saved activations kept in host memory: none, all or of stages 0,2",
       .otherwise = "none",
       .words = {"none", "all"},
       .of = Of::plan},
      {.name = "--replicas",
       .text = &PlanChoice::replicas,
       .field = Field::replicas,
       .type = "LIST",
       .help = "devices per stage, taken in order: 2,1",
       .otherwise = "1 each"},
      {.name = "--memory-format",
       .text = &PlanChoice::memory_format,
       .type = "FORMAT",
       .help = "order of dimensions in memory, of activations and of the weights of convolutions: contiguous or channels_last",
       .otherwise = "contiguous",
       .words = {kMemoryFormatNames.begin(), kMemoryFormatNames.end()}},
      {.name = "--threads",
       .text = &PlanChoice::threads,
       .type = "N",
       .help = "intra-op threads of a CPU device, those with fewer cores one per core",
       .otherwise = "one per core"},
      {.name = "--exact",
       .flag = &PlanChoice::exact,
       .help = "gradients that equal the un-pipelined model's in every bit: contiguous tensors, a thread per core, no kernel replaced, "
               "nothing fused",
       .of = Of::search},
      {.name = "--keep-numerics",
       .flag = &PlanChoice::keep_numerics,
       .help = "only plans that train as one device does: where samples of a micro-batch depend on each other (batch norm), one "
               "micro-batch",
       .of = Of::search},
      {.name = "--no-offload",
       .flag = &PlanChoice::no_offload,
       .help = "no plan keeps saved activations in host memory; else some may where --memory asks for it and copies were measured",
       .of = Of::search}};
  return options;
}

std::string PlanChoice::given() const {
  std::vector<std::string> words;
  for (const PlanChoiceOption& option : plan_choice_options()) {
    if (option.flag != nullptr && this->*option.flag) words.emplace_back(option.name);
    if (option.text != nullptr && !(this->*option.text).empty()) words.push_back(std::string(option.name) + " " + this->*option.text);
  }
  return join(words, " ");
}

void add_plan_options(CLI::App& command, PlanChoice& choice, bool searched, const std::vector<planner::Field>& only) {
  const char* const group = searched ? kSearchedGroup : kPlanGroup;
  for (const PlanChoiceOption& option : plan_choice_options()) {
    if (option.of == (searched ? PlanChoiceOption::Of::plan : PlanChoiceOption::Of::search)) continue;
    if (!only.empty() && (!option.field || std::ranges::find(only, *option.field) == only.end())) continue;
    if (option.flag != nullptr) {
      command.add_flag(option.name, choice.*option.flag, option.help)->group(group);
      continue;
    }
    const bool takes_file = !searched && !option.file_help.empty();
    std::string help = option.help + (takes_file ? option.file_help : "");
    if (!searched && !option.otherwise.empty()) help += "; default: " + option.otherwise;
    CLI::Option* added = command.add_option(option.name, choice.*option.text, help)->group(group);
    added->type_name(option.type + std::string(takes_file ? "|FILE" : ""));
    std::vector<std::string> words = option.words;
    if (takes_file) words.emplace_back(kFileValue);
    if (!words.empty()) offer_values(*added, words);
  }
}

void add_plan_file_options(CLI::App& command, PlanChoice& options, const std::string& help) {
  offer_values(*command.add_option("--plan", options.plan, help)->type_name("FILE")->group(kPlanGroup), {kFileValue});
  command.add_flag("--strict", options.strict, "refuse a plan made for another model or machine; default: warn")->group(kPlanGroup);
  command
      .add_flag("--allow-renamed", options.allow_renamed,
                "take a plan that names modules which the model does not have; default: refuse it")
      ->group(kPlanGroup);
}

}  // namespace mptune::reports
