"""What the numbers of the accessibility protocol mean: roles and states, by their names."""

from __future__ import annotations

from collections.abc import Sequence

# The order of AtspiRole and AtspiStateType in at-spi2-core's atspi-constants.h.
_ROLE_NAMES = (
    "invalid,accelerator label,alert,animation,arrow,calendar,canvas,check box,check menu item,"
    "color chooser,column header,combo box,date editor,desktop icon,desktop frame,dial,dialog,"
    "directory pane,drawing area,file chooser,filler,focus traversable,font chooser,frame,"
    "glass pane,html container,icon,image,internal frame,label,layered pane,list,list item,menu,"
    "menu bar,menu item,option pane,page tab,page tab list,panel,password text,popup menu,"
    "progress bar,push button,radio button,radio menu item,root pane,row header,scroll bar,"
    "scroll pane,separator,slider,spin button,split pane,status bar,table,table cell,"
    "table column header,table row header,tearoff menu item,terminal,text,toggle button,tool bar,"
    "tool tip,tree,tree table,unknown,viewport,window,extended,header,footer,paragraph,ruler,"
    "application,autocomplete,edit bar,embedded,entry,chart,caption,document frame,heading,page,"
    "section,redundant object,form,link,input method window,table row,tree item,"
    "document spreadsheet,document presentation,document text,document web,document email,comment,"
    "list box,grouping,image map,notification,info bar,level bar,title bar,block quote,audio,video,"
    "definition,article,landmark,log,marquee,math,rating,timer,static,math fraction,math root,"
    "subscript,superscript"
)
_STATE_NAMES = (
    "invalid,active,armed,busy,checked,collapsed,defunct,editable,enabled,expandable,expanded,"
    "focusable,focused,has tooltip,horizontal,iconified,modal,multi line,multiselectable,opaque,"
    "pressed,resizable,selectable,selected,sensitive,showing,single line,stale,transient,vertical,"
    "visible,manages descendants,indeterminate,required,truncated,animated,invalid entry,"
    "supports autocompletion,selectable text,is default,visited,checkable,has popup,read only"
)
_ROLES = _ROLE_NAMES.split(",")
_STATES = _STATE_NAMES.split(",")


def states_of(words: Sequence[int]) -> frozenset[str]:
    """The states that these words of bits stand for."""
    bits = sum(word << 32 * place for place, word in enumerate(words[:2]))
    return frozenset(name for number, name in enumerate(_STATES) if bits >> number & 1)


def role_of(number: int) -> str:
    """The role of this number, in words."""
    return _ROLES[number] if number < len(_ROLES) else f"role {number}"
