"""The other side of each ratio: the driver alone, called the way a careful person would by hand."""
