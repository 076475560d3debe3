extern "C" int mptune_no_plugin() {
  return 0;
}
