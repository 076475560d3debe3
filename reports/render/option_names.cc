#include "mptune/reports/render/option_names.h"

#include <array>
#include <utility>

namespace mptune {
namespace {

constexpr std::array kOptions{
    std::pair{Field::devices, "--devices"},
    std::pair{Field::memory, "--memory"},
    std::pair{Field::batch, "--batch"},
    std::pair{Field::stages, "--stages"},
    std::pair{Field::virtual_stages, "--virtual"},
    std::pair{Field::cuts, "--cuts"},
    std::pair{Field::microbatches, "--microbatches"},
    std::pair{Field::split_size, "--split-size"},
    std::pair{Field::schedule, "--schedule"},
    std::pair{Field::recompute, "--recompute"},
    std::pair{Field::replicas, "--replicas"},
    std::pair{Field::objective, "--objective"},
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string option_of(Field field) {
  for (const auto& [known, option] : kOptions) {
    if (known == field) {
      return option;
    }
  }
  return field_name(field);
}

std::string option_text(const FieldValue& value) {
  return value.value.empty() ? "no " + option_of(value.field) + " option" : option_of(value.field) + " " + value.value;
}

std::vector<std::string> option_texts(const std::vector<FieldValue>& values) {
  std::vector<std::string> texts;
  for (const FieldValue& value : values) {
    texts.push_back(option_text(value));
  }
  return texts;
}

std::string with_option_names(const std::string& text) {
  std::string named = text;
  for (const auto& [field, option] : kOptions) {
    replace_all(named, "`" + std::string(field_name(field)) + "`", option);
  }
  return named;
}

Error with_option_names(const Error& error) {
  const auto* at_field = dynamic_cast<const FieldError*>(&error);
  const std::string where = at_field != nullptr ? option_of(at_field->field()) : with_option_names(error.where());
  return {with_option_names(std::string(error.what())), where, with_option_names(error.remedy()), error.code()};
}

}  // namespace mptune
