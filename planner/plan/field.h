#pragma once

#include <string>
#include <utility>

#include "planner/plan/plan_error.h"

namespace mptune::planner {

/// What users state about a plan or a search: fields of PlanOptions and SearchSpace. On a command line each field is an option.
enum class Field {
  devices,
  memory,
  batch,
  stages,
  virtual_stages,
  cuts,
  cut_at,
  microbatches,
  split_size,
  schedule,
  recompute,
  offload,
  replicas,
  objective
};
inline constexpr std::pair<Field, const char*> kFields[] = {{Field::devices, "devices"},
                                                            {Field::memory, "memory"},
                                                            {Field::batch, "batch"},
                                                            {Field::stages, "stages"},
                                                            {Field::virtual_stages, "virtual_stages"},
                                                            {Field::cuts, "cuts"},
                                                            {Field::cut_at, "cut_at"},
                                                            {Field::microbatches, "microbatches"},
                                                            {Field::split_size, "split_size"},
                                                            {Field::schedule, "schedule"},
                                                            {Field::recompute, "recompute"},
                                                            {Field::offload, "offload"},
                                                            {Field::replicas, "replicas"},
                                                            {Field::objective, "objective"}};
/// Returns the field's name, such as "virtual_stages".
[[nodiscard]] const char* field_name(Field field);

/// A field and the value to state for it: microbatches "8", cuts "3,7", recompute "0,2"; "" means that nothing is stated.
struct FieldValue {
  Field field = Field::devices;
  std::string value;
  bool operator==(const FieldValue&) const = default;
};

/// Thrown for a stated value that no plan can have. `where()` is the field's name. Texts name other fields as `name`, so that a program can
/// put its own words, such as options, in their place.
class FieldError : public PlanError {
 public:
  FieldError(Field field, std::string problem, std::string remedy, ExitCode code = ExitCode::usage)
      : PlanError(std::move(problem), field_name(field), std::move(remedy), code), field_(field) {}
  [[nodiscard]] Field field() const { return field_; }

 private:
  Field field_;
};

}  // namespace mptune::planner
