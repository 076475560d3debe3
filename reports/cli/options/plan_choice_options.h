#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/field.h"
#include "profiler/base/memory_format.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// What a user asks of the plan, as typed; "" where not given.
struct PlanChoice {
  std::string stages, virtual_stages, cuts, cut_at, microbatches, split_size, schedule, recompute, offload, replicas, memory_format,
      threads;
  bool exact = false;          ///< restricts a search
  bool keep_numerics = false;  ///< restricts a search
  bool no_offload = false;     ///< restricts a search
  std::string plan;
  bool strict = false;
  bool allow_renamed = false;
  /// Returns every option that is given, but `plan`, `strict` and `allow_renamed`, as typed: "--stages 2 --recompute all".
  [[nodiscard]] std::string given() const;
  /// Returns true if any of these is given.
  [[nodiscard]] bool any() const { return !given().empty(); }
  /// Returns true unless other plans than those in channels_last are asked for.
  [[nodiscard]] bool allows_channels_last() const { return !exact && memory_format != name_of(MemoryFormat::contiguous); }
  /// Returns true unless gradients are to be exact.
  [[nodiscard]] bool allows_replaced_kernels() const { return !exact; }
};

/// An option that says what plans are to be like. Help, Python's functions, PlanChoice::given(), the command that a study keeps, and
/// commands with changed options are made from these values.
struct PlanChoiceOption {
  enum class Of { both, plan, search };     ///< which commands have it: those that name a plan, those that search one
  const char* name;                         ///< "--stages"
  std::string PlanChoice::*text = nullptr;  ///< its value; null for a flag
  bool PlanChoice::*flag = nullptr;
  std::optional<planner::Field> field = {};  ///< what it states to the planner
  const char* type = "";                     ///< of the value: "K"
  std::string help = {};
  std::string otherwise = {};           ///< the default of commands that name a plan; "": help doesn't say one
  std::string file_help = {};           ///< says which file they take, too; "": none
  std::vector<std::string> words = {};  ///< what completion offers
  Of of = Of::both;
};
/// Returns all of them, in the order of help.
[[nodiscard]] const std::vector<PlanChoiceOption>& plan_choice_options();

/// Adds these options to a command, which fills `options`. `searched`: they restrict a search instead of naming one plan. `only`: the
/// fields whose options are added; empty: all options.
void add_plan_options(CLI::App& command, PlanChoice& options, bool searched, const std::vector<planner::Field>& only = {});
/// Adds --plan, with this help, and what goes with a plan file: --strict and --allow-renamed.
void add_plan_file_options(CLI::App& command, PlanChoice& options, const std::string& help);

}  // namespace mptune::reports
