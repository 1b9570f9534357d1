// The curves stand in the page already.
watchPrint();
document.documentElement.dataset.ready = "true";
