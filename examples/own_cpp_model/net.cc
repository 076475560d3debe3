// The plug-in: what `mptune tune ./libnet.so` loads.
#include "net.h"

MPTUNE_MODEL(make_model);
