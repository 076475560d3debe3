#include "reports/render/option_names.h"

#include <array>
#include <utility>

namespace mptune::reports {
namespace {

constexpr std::array kOptions{
    std::pair{planner::Field::devices, "--devices"},
    std::pair{planner::Field::memory, "--memory"},
    std::pair{planner::Field::batch, "--batch"},
    std::pair{planner::Field::stages, "--stages"},
    std::pair{planner::Field::virtual_stages, "--virtual"},
    std::pair{planner::Field::cuts, "--cuts"},
    std::pair{planner::Field::cut_at, "--cut-at"},
    std::pair{planner::Field::microbatches, "--microbatches"},
    std::pair{planner::Field::split_size, "--split-size"},
    std::pair{planner::Field::schedule, "--schedule"},
    std::pair{planner::Field::recompute, "--recompute"},
    std::pair{planner::Field::offload, "--offload"},
    std::pair{planner::Field::replicas, "--replicas"},
    std::pair{planner::Field::objective, "--objective"},
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

}  // namespace

std::string option_of(planner::Field field) {
  for (const auto& [known, option] : kOptions)
    if (known == field) return option;
  return planner::field_name(field);
}

std::string option_text(const planner::FieldValue& value) {
  return value.value.empty() ? "no " + option_of(value.field) + " option" : option_of(value.field) + " " + value.value;
}

std::vector<std::string> option_texts(const std::vector<planner::FieldValue>& values) {
  std::vector<std::string> texts;
  for (const planner::FieldValue& value : values) texts.push_back(option_text(value));
  return texts;
}

std::string with_option_names(const std::string& text) {
  std::string named = text;
  for (const auto& [field, option] : kOptions) replace_all(named, "`" + std::string(planner::field_name(field)) + "`", option);
  return named;
}

Error with_option_names(const Error& error) {
  const auto* at_field = dynamic_cast<const planner::FieldError*>(&error);
  const std::string where = at_field != nullptr ? option_of(at_field->field()) : with_option_names(error.where());
  return {with_option_names(error.problem()), where, with_option_names(error.remedy()), error.code()};
}

}  // namespace mptune::reports
