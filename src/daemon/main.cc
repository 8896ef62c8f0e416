#include "cli/main.h"

int main(int argc, char** argv) { return waybill::cli::main(argc, argv); }
