#include "planner/plan/field.h"

namespace mptune::planner {

const char* field_name(Field field) {
  switch (field) {
    case Field::devices:
      return "devices";
    case Field::memory:
      return "memory";
    case Field::batch:
      return "batch";
    case Field::stages:
      return "stages";
    case Field::virtual_stages:
      return "virtual_stages";
    case Field::cuts:
      return "cuts";
    case Field::cut_at:
      return "cut_at";
    case Field::microbatches:
      return "microbatches";
    case Field::split_size:
      return "split_size";
    case Field::schedule:
      return "schedule";
    case Field::recompute:
      return "recompute";
    case Field::offload:
      return "offload";
    case Field::replicas:
      return "replicas";
    case Field::objective:
      return "objective";
  }
  return "";
}

}  // namespace mptune::planner
