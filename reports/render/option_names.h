#pragma once

#include <string>
#include <vector>

#include "planner/field.h"

namespace mptune::reports {

/// The option of a field: "--virtual" of Field::virtual_stages.
[[nodiscard]] std::string option_of(planner::Field field);

/// As a user types it: "--microbatches 8"; "no --recompute option" where nothing is to be stated.
[[nodiscard]] std::string option_text(const planner::FieldValue& value);
[[nodiscard]] std::vector<std::string> option_texts(const std::vector<planner::FieldValue>& values);

/// The text with the option of each field that it names: "leave --split-size out" of "leave `split_size` out".
[[nodiscard]] std::string with_option_names(const std::string& text);
/// The same for an error. The `where` of a FieldError becomes the field's option.
[[nodiscard]] Error with_option_names(const Error& error);

}  // namespace mptune::reports
