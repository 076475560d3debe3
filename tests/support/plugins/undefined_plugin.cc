// A plug-in that was linked without the library of its model.
#include "profiler/model/plugin/plugin_header.h"

mptune::Model model_of_a_library_that_is_not_linked();

MPTUNE_MODEL(model_of_a_library_that_is_not_linked);
