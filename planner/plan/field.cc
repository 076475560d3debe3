#include "planner/plan/field.h"

#include <algorithm>

namespace mptune::planner {

const char* field_name(Field field) {
  return std::ranges::find(kFields, field, &std::pair<Field, const char*>::first)->second;
}

}  // namespace mptune::planner
